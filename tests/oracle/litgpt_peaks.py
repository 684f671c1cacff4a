"""Peaks and launches of litgpt 0.5.13's finetune_lora and finetune_full on the emulated device: its own layers, adapters
and loss, Lightning Fabric 2.6.1's precision, the loop of finetune/lora.py and finetune/full.py.

    ac-advisor dryrun --output /dev/null -- python litgpt_peaks.py litgpt_peaks.json

As emulated_peaks.py; needs litgpt, lightning, lightning-utilities, torchmetrics and jsonargparse on PYTHONPATH (and
bitsandbytes). A model is made of the planner's config.json, by the names of litgpt's own.
"""

import gc
import sys
import types

import torch

sys.modules["requests"] = types.ModuleType("requests")  # that only a download needs
import lightning  # noqa: E402
from lightning.fabric.plugins import BitsandbytesPrecision  # noqa: E402
from litgpt import lora  # noqa: E402
from litgpt import model as plain  # noqa: E402
from litgpt.config import Config  # noqa: E402
from litgpt.utils import chunked_cross_entropy, instantiate_bnb_optimizer, instantiate_torch_optimizer  # noqa: E402

import emulated_peaks  # noqa: E402
from emulated_cases import config_of  # noqa: E402

QUANTIZED = {"nf4": "nf4", "nf4-double": "nf4-dq"}
TARGETS = ("query", "key", "value", "projection", "mlp", "head")
ATTENTION = "query,key,value,projection"


def shape(model, **more):
    return {"model": model, "framework": "litgpt", "batch": 1, "seq": 1024} | more


def lora_cases():
    yield shape("small_llama", lora=8)
    yield shape("small_llama", lora=8, batch=4)
    yield shape("llama1b_4layers", lora=8)
    yield shape("llama1b_4layers", lora=16, batch=2)
    yield shape("llama1b_4layers", lora=8, seq=1000)
    yield shape("llama1b_4layers", lora=8, batch=3, seq=1000, grad_accum=2)
    yield shape("llama1b_4layers", lora=8, batch=2, lora_dropout="0")
    yield shape("llama1b_4layers", lora=8, lora_targets="query")
    yield shape("llama1b_4layers", lora=8, batch=2, lora_targets=ATTENTION)
    yield shape("llama1b_4layers", lora=8, batch=2, lora_targets=f"{ATTENTION},mlp")
    yield shape("llama1b_4layers", lora=32, lora_targets="mlp")
    yield shape("llama1b_4layers", lora=8, attn="flash")
    yield shape("llama1b_4layers", lora=8, optimizer="adamw")
    yield shape("mistral7b_4layers", lora=8, batch=2)
    yield shape("smollm17b_untied_4layers", lora=8, batch=2)
    yield shape("smollm17b_untied_4layers", lora=8, batch=2, lora_targets=f"{ATTENTION},mlp")
    yield shape("qwen2_05b_4layers", lora=8, batch=2)
    yield shape("pythia_14b_4layers", lora=8)
    yield shape("pythia_14b_4layers", lora=16, batch=2, seq=800)
    yield shape("phi2_4layers_undropped", lora=8)
    yield shape("phi2_4layers_undropped", lora=16, batch=2, seq=800)
    yield shape("gemma_7b_4layers", lora=8)
    yield shape("llama8b", lora=8)
    yield shape("llama1b_4layers", lora=8, batch=2, lora_targets=f"{ATTENTION},mlp,head")
    yield shape("pythia_14b_4layers", lora=8, batch=2, lora_targets="head")


def quantized_cases():
    for quantize in QUANTIZED:
        yield shape("llama1b_4layers", lora=8, quantize=quantize)
        yield shape("llama1b_4layers", lora=8, quantize=quantize, batch=2, seq=1000, lora_targets=f"{ATTENTION},mlp")
        yield shape("smollm17b_untied_4layers", lora=16, quantize=quantize, batch=2)
        yield shape("pythia_14b_4layers", lora=8, quantize=quantize)
        yield shape("phi2_4layers_undropped", lora=8, quantize=quantize, batch=2)
    yield shape("llama8b", lora=8, quantize="nf4")
    yield shape("llama1b_4layers", lora=8, quantize="nf4", grad_accum=2)


def full_cases():
    yield shape("small_llama")
    yield shape("small_llama", batch=4)
    yield shape("llama1b_4layers")
    yield shape("llama1b_4layers", batch=2, seq=1000)
    yield shape("llama1b_4layers", grad_accum=2)
    yield shape("llama1b_4layers", batch=2, optimizer="adamw")
    yield shape("mistral7b_4layers", batch=2)
    yield shape("qwen2_05b_4layers")
    yield shape("pythia_14b_4layers", batch=2)
    yield shape("phi2_4layers_undropped", batch=2)
    yield shape("gemma_7b_4layers")


def cases():
    yield from lora_cases()
    yield from quantized_cases()
    yield from full_cases()


def litgpt_config(c):
    """As litgpt/config.py has its own models."""
    family = c["model_type"]
    size = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    theta = c["rope_parameters"]["rope_theta"]
    own = dict(name="llama", block_size=c["max_position_embeddings"], vocab_size=c["vocab_size"],
               padded_vocab_size=c["vocab_size"], n_layer=c["num_hidden_layers"], n_head=c["num_attention_heads"],
               n_embd=c["hidden_size"], n_query_groups=c.get("num_key_value_heads", c["num_attention_heads"]),
               head_size=size, intermediate_size=c["intermediate_size"], rope_base=int(theta), rotary_percentage=1.0,
               norm_eps=c.get("rms_norm_eps") or c["layer_norm_eps"])
    if family in ("gpt_neox", "phi"):
        share = c["rope_parameters"]["partial_rotary_factor"]
        own |= dict(rotary_percentage=share, parallel_residual=c.get("use_parallel_residual", True), bias=True,
                    mlp_class_name="GptNeoxMLP")
        if family == "phi":
            own |= dict(shared_attention_norm=True, lm_head_bias=True, gelu_approximate="tanh")
        return own
    own |= dict(parallel_residual=False, bias=False, norm_class_name="RMSNorm", mlp_class_name="LLaMAMLP")
    if family == "qwen2":
        own |= dict(attn_bias=True)
    if family == "gemma":
        own |= dict(scale_embeddings=True, mlp_class_name="GemmaMLP", gelu_approximate="tanh")
    return own


class Watched:
    """What marks.enter is told of the script's own calls."""

    def __init__(self, entry):
        quantize = QUANTIZED.get(entry.get("quantize"))
        plugins = BitsandbytesPrecision(quantize, torch.bfloat16) if quantize else None
        self.fabric = lightning.Fabric(devices=1, accelerator="cuda", precision=None if quantize else "bf16-true",
                                       plugins=plugins)
        self.quantized = quantize is not None
        config = litgpt_config(config_of(entry["model"]))
        self.adapts = bool(entry.get("lora"))
        if self.adapts:
            names = entry.get("lora_targets", "query,value").split(",")
            trained = {f"lora_{target}": target in names for target in TARGETS}
            dropout = float(entry.get("lora_dropout", 0.05))
            config = lora.Config(**config, lora_r=entry["lora"], lora_alpha=16, lora_dropout=dropout, **trained)
        else:
            config = Config(**config)
        with self.fabric.init_module():
            made = lora.GPT(config) if self.adapts else plain.GPT(config)
        if self.adapts:
            lora.mark_only_lora_as_trainable(made)
            self.model = self.fabric.setup_module(made)
        else:
            self.model = self.fabric.setup(made)
        self.set_optimizer(entry)
        self.model.max_seq_length = entry["seq"]

    def set_optimizer(self, entry):
        """finetune/lora.py, main; `old_embedding` is a local of it."""
        model = self.model
        if self.quantized:
            optimizer = instantiate_bnb_optimizer("AdamW", model.parameters())
            from bitsandbytes.nn import StableEmbedding

            self.old_embedding = old = model.transformer.wte
            model.transformer.wte = StableEmbedding(old.num_embeddings, old.embedding_dim)
            with torch.no_grad():
                model.transformer.wte.weight.copy_(old.weight)
            model.transformer.wte = model.transformer.wte.to(device=old.weight.device, dtype=old.weight.dtype)
        elif entry["optimizer"] == "adamw":
            fused = {"class_path": "torch.optim.AdamW", "init_args": {"fused": True}}
            optimizer = instantiate_torch_optimizer(fused, model.parameters())
        else:
            optimizer = instantiate_torch_optimizer("AdamW", model.parameters())
        self.optimizer = self.fabric.setup_optimizers(optimizer)


def fit(entry, marks, run, ids, labels):
    """A step of finetune/lora.py's fit, and of finetune/full.py's."""
    fabric, model, optimizer = run.fabric, run.model, run.optimizer
    for number in range(entry["grad_accum"]):
        marks.enter("forward")
        is_accumulating = number + 1 < entry["grad_accum"]
        with fabric.no_backward_sync(model, enabled=is_accumulating):
            if run.adapts:
                run.logits = model(ids, lm_head_chunk_size=128)
                marks.enter("loss")
                run.logits[-1] = run.logits[-1][..., :-1, :]
                run.loss = chunked_cross_entropy(run.logits, labels[..., 1:])
            else:
                run.logits = model(ids)
                marks.enter("loss")
                run.loss = chunked_cross_entropy(run.logits[..., :-1, :], labels[..., 1:])
            marks.enter("backward")
            fabric.backward(run.loss / entry["grad_accum"])
    marks.enter("optimizer")
    optimizer.step()
    optimizer.zero_grad()


def steps(entry, marks, build):
    run = Watched(entry)
    ids, labels = (torch.randint(8000, (entry["batch"], entry["seq"])).cuda() for _ in range(2))
    gc.collect()
    torch.cuda.empty_cache()
    found = []
    for _ in range(2):
        marks.figures = {}
        fit(entry, marks, run, ids, labels)
        marks.enter(None)
        found.append(marks.figures)
    if run.quantized:  # what bitsandbytes would keep of this case
        from bitsandbytes import functional, optim

        optim.GlobalOptimManager.get_instance().module_weight_config_triple.clear()
        functional.name2qmap.clear()
    return found


def measure(entry):
    return emulated_peaks.measure({"optimizer": "adamw-foreach"} | entry, steps=steps)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
