"""Peaks and launches of torchtune 0.6.1's recipes on the emulated device: the loop, the chunked loss and the sharding of
full_finetune_distributed and lora_finetune_distributed around transformers' layers, which the planner has.

    ac-advisor dryrun [--world N] --output /dev/null -- python torchtune_peaks.py torchtune_peaks.json

As emulated_peaks.py; needs torchtune 0.6.1 on PYTHONPATH, whose loss is taken from its own file.
"""

import contextlib
import gc
import importlib.util
import sys
import types

import torch
from peft import LoraConfig, get_peft_model
from torch import nn

import compile_peaks
import emulated_peaks
import training_step
from loop_step import torchtune_loss

MODELS = ("small_llama", "llama1b_4layers", "qwen3_06b_4layers", "qwen2_05b_4layers", "mistral7b_4layers")
ATTENTION_AND_MLP = "q_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"


def shape(model, **more):
    return {"model": model, "framework": "torchtune", "transformer_impl": "hf", "batch": 2, "seq": 1024, "ac": "full",
            "loss": "chunked-logits:8"} | more


def cases():
    for model in MODELS:
        for ac in ("full", "none"):
            yield shape(model, ac=ac)
            yield shape(model, ac=ac, world=8, shard="fsdp2")
        yield shape(model, world=8, shard="fsdp2", batch=1, seq=2048, optimizer="adamw-foreach")
        yield shape(model, world=2, shard="fsdp2", grad_accum=2)
        yield shape(model, world=8, shard="fsdp2", lora=8, lora_targets=ATTENTION_AND_MLP)
        yield shape(model, world=8, shard="fsdp2", lora=8, lora_targets=ATTENTION_AND_MLP, ac="none")
        yield shape(model, offload="activations")
        yield shape(model, offload="activations", batch=3, seq=1000, grad_accum=2)
        yield shape(model, offload="activations", lora=8, lora_targets=ATTENTION_AND_MLP)
    for model in ("small_llama", "llama1b_4layers"):
        yield shape(model, world=8, shard="fsdp2", loss="chunked-logits:4")
        yield shape(model, world=4, shard="fsdp2", batch=3, seq=1000)
        yield shape(model, lora=8, lora_targets=ATTENTION_AND_MLP)


class Decoder(nn.Module):
    """What the recipe calls its model: tokens in, logits out, in the loss's chunks (TransformerDecoder)."""

    def __init__(self, model, chunks):
        super().__init__()
        self.m, self.chunks = model, chunks

    def forward(self, ids):
        hidden = self.m.base_model(input_ids=ids, use_cache=False).last_hidden_state
        return [self.m.lm_head(part) for part in hidden.chunk(self.chunks, dim=1)]


class Recipe:
    """full_finetune_distributed's train, of one micro-batch: the loss is computed outside of what is sharded."""

    def __init__(self, decoder, chunks, on_loss, around=None, compiles=False):
        self.around = around or contextlib.nullcontext()  # activations_handling_ctx
        self.decoder, self.loss_of, self.on_loss = decoder, torchtune_loss()(chunks), on_loss
        if compiles:  # training/_compile.py: compile_loss
            self.loss_of.compute_cross_entropy = torch.compile(self.loss_of.compute_cross_entropy)
        self.ignored = None

    def __call__(self, ids, labels):
        if self.ignored is None:
            self.ignored = torch.full((ids.shape[0], 1), -100, device="cuda")
        tokens = (labels != -100).sum()
        with self.around:
            logits = self.decoder(ids)
        self.on_loss()
        loss = self.loss_of(logits, torch.hstack((labels[..., 1:], self.ignored))) * tokens
        del logits
        return loss


def adapted(model, entry):
    """LoRA in the base's dtype. PEFT's own hooks (enable_input_require_grads) are not there."""
    names = entry["lora_targets"].split(",")
    tuned = get_peft_model(model, LoraConfig(r=entry["lora"], lora_alpha=2 * entry["lora"], target_modules=names),
                           autocast_adapter_dtype=False)
    return tuned.base_model.model


def build(entry, on_loss):
    model = emulated_peaks.model_of(entry)
    if entry.get("lora"):
        model = adapted(model, entry)
    blocks = training_step.blocks_of(model)
    compiles = entry.get("kernels") == "compiled"
    if compiles:  # the layers first, then a checkpoint around each
        compile_peaks.compiled_blocks(model)
        blocks = training_step.blocks_of(model)
    training_step.checkpoint_blocks(model, emulated_peaks.ac_of(entry))
    chunks = int(entry["loss"].removeprefix("chunked-logits:"))
    decoder = emulated_peaks.parallel(Decoder(model, chunks), blocks, entry)
    around = None
    if entry.get("offload") == "activations":
        decoder.output = model.lm_head  # by this name the manager finds the head, and leaves it alone
        around = offloading().get_act_offloading_ctx_manager(decoder, True)
    return decoder, Recipe(decoder, chunks, on_loss, around, compiles)


def of_own_layers(decoder_of, entry, on_loss):
    """Of torchtune's own TransformerDecoder, which `decoder_of(entry)` makes without memory."""
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("meta"):
        decoder = decoder_of(entry)
    torch.set_default_dtype(torch.float32)
    decoder.layers = nn.ModuleList(
        training_step.checkpoint_wrapper(layer, preserve_rng_state=False) if entry["ac"] == "full" else layer
        for layer in decoder.layers)
    chunks = int(entry["loss"].removeprefix("chunked-logits:"))
    decoder.set_num_output_chunks(chunks)
    decoder.m = types.SimpleNamespace(base_model=decoder, lm_head=decoder.output)  # what shard_over looks at
    emulated_peaks.parallel(decoder, list(decoder.layers), entry)
    for module in decoder.modules():
        if hasattr(module, "rope_init"):
            with torch.device("cuda"):
                module.rope_init()
    return decoder, Recipe(decoder, chunks, on_loss)


def offloading():
    """training/_activation_offloading.py by itself: the package asks for an older torchao."""
    folder = importlib.util.find_spec("torchtune").submodule_search_locations[0]
    for name, names in {"torchao.dtypes.nf4tensor": {"NF4Tensor": type("NF4Tensor", (), {})},
                        "torchtune": {}, "torchtune.modules": {"TiedLinear": type("TiedLinear", (), {})},
                        "torchtune.utils": {"get_logger": lambda level: None}}.items():
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(names)
    spec = importlib.util.spec_from_file_location("offloading", f"{folder}/training/_activation_offloading.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("torchtune", "torchtune.modules", "torchtune.utils"):
        del sys.modules[name]
    return module


def trained(decoder):
    return [p for p in decoder.parameters() if p.requires_grad]


def steps(entry, marks, build):
    """As emulated_peaks.steps, but the recipe drops gradients right after the optimizer's step."""
    decoder, recipe = build(entry, lambda: marks.enter("loss"))
    optimizer = torch.optim.AdamW(trained(decoder),
                                  **{"fused" if entry["optimizer"] == "adamw" else "foreach": True})
    ids, labels = (torch.randint(8000, (entry["batch"], entry["seq"])).cuda() for _ in range(2))
    gc.collect()
    torch.cuda.empty_cache()
    kept, found = [], []
    for _ in range(2):
        marks.figures = {}
        for _ in range(entry["grad_accum"]):
            marks.enter("forward")
            kept.clear()
            loss = recipe(ids, labels)
            kept.append(loss.detach())  # running_loss
            marks.enter("backward")
            loss.backward()
            del loss
        marks.enter("optimizer")
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        marks.enter(None)
        found.append(marks.figures)
    return found


def measure(entry):
    return emulated_peaks.measure(entry, build=build, steps=steps)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
