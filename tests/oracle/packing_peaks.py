"""Peaks and launches of training steps of packed documents on the emulated device.

    ac-advisor dryrun [--world N] --output /dev/null -- python packing_peaks.py packing_peaks.json

As emulated_peaks.py; a case has its keys, packing (documents in the row of batch x seq tokens), autocast, lora and
dora. The batch is what TRL's padding-free collator gives: tokens, labels, positions that restart, cu_seq_lens. attn: flash is
transformers' flash_attention_2 (packed_flash.py stands in for the package); auto and eager are given a mask.
"""

import contextlib
import gc
import sys

import packed_flash  # noqa: F401  before transformers
import peft
import torch
import transformers

import emulated_cases
import emulated_peaks
import loop_names
import training_step
from generate_peaks import auto_class
from training_step import DTYPES

MORE = {"autocast": "none", "lora": 0, "dora": False}
FP16 = {"param_dtype": "fp16", "compute_dtype": "fp16", "reduce_dtype": "fp16"}
AUTOCAST = {"param_dtype": "fp32", "autocast": "bf16"}
REAL = ("llama1b_4layers", "qwen2_05b_4layers", "qwen3_06b_4layers", "mistral7b_4layers")
OTHERS = ("phi3_mini_4layers", "smollm3_3b_4layers", "small_llama", "small_mixtral")
FAMILIES = ("gemma_7b_4layers", "granite31_8b_4layers", "olmo2_7b_4layers", "olmoe_1b_7b_4layers", "qwen3_30b_a3b_4layers",
            "mixtral8x7b_2layers", "pythia_14b_4layers", "phi2_4layers", "aya_8b_4layers", "glm_9b_4layers",
            "glm4_9b_4layers", "qwen15_moe_27b_4layers", "internlm25_7b_4layers", "minicpm_2b_4layers",
            "glm45_air_3layers", "llava15_7b_4layers", "starcoder2_3b_no_window")
MASKED = ("stablelm2_16b_4layers", "stablelm_parallel_4layers", "minitron_4b_4layers")  # cu_seq_lens are not handed on
emulated_cases.VALUES["starcoder2_3b_no_window"] = emulated_cases.VALUES["starcoder2_3b_4layers"] | {
    "sliding_window": None}


def shape(model, batch, seq, packing, **more):
    return {"model": model, "batch": batch, "seq": seq, "packing": packing, "attn": "flash", "ac": "none",
            "loss": "ce"} | more


def cases():
    for model in REAL:
        for ac in ("none", "full", "selective"):
            yield shape(model, 2, 2048, 8, ac=ac)
        yield shape(model, 1, 4096, 3)
        yield shape(model, 4, 2048, 64, ac="full", loss="chunked:1024")
        yield shape(model, 2, 2048, 8, **AUTOCAST)
        yield shape(model, 2, 2048, 8, shard="fsdp2", world=8)
        yield shape(model, 2, 2048, 8, lora=16)
        yield shape(model, 1, 2048, 4, attn="auto")
    for model in REAL[:2]:
        yield shape(model, 2, 2048, 1)
        yield shape(model, 2, 2048, 8, hold_output=False, grad_accum=2)
        yield shape(model, 2, 2048, 8, ac="grouped:2")
        yield shape(model, 2, 2048, 8, ac="full", **AUTOCAST)
        yield shape(model, 2, 2048, 8, ac="full", lora=16)
        yield shape(model, 2, 2048, 8, ac="full", shard="fsdp2", world=8, loss="chunked:1024")
        yield shape(model, 2, 2048, 8, shard="ddp", world=8)
        yield shape(model, 2, 2048, 8, shard="hsdp:4", world=8)
        yield shape(model, 2, 2048, 8, lora=16, dora=True)
        yield shape(model, 2, 2048, 8, **FP16)
        yield shape(model, 2, 2048, 8, optimizer="adamw-foreach")
        yield shape(model, 2, 1024, 8, attn="auto", ac="full")
        yield shape(model, 1, 1024, 4, attn="eager")
        yield shape(model, 2, 1024, 1, attn="auto")
        yield shape(model, 2, 1024, 4, attn="auto", shard="fsdp2", world=8)
        yield shape(model, 2, 1024, 4, attn="auto", **AUTOCAST)
    for model in OTHERS:
        yield shape(model, 2, 2048, 8)
        yield shape(model, 2, 2048, 8, ac="full")
        yield shape(model, 1, 1000, 7, attn="auto")
    for model in FAMILIES:
        yield shape(model, 2, 2048, 8)
        yield shape(model, 2, 2048, 8, ac="full")
    for model in (*FAMILIES, *MASKED):
        yield shape(model, 1, 1024, 5, attn="auto")


def model_of(entry):
    """On the meta device."""
    config = transformers.AutoConfig.for_model(**emulated_cases.config_of(entry["model"]))
    without = "eager" if config.model_type in emulated_cases.EAGER_ONLY else "sdpa"
    config._attn_implementation = {"flash": "flash_attention_2", "eager": "eager"}.get(entry["attn"], without)
    with torch.device("meta"):
        model = auto_class(config).from_config(config, dtype=DTYPES[entry["param_dtype"]]).train()
    model.tie_weights()
    return model


class Step(torch.nn.Module):
    """As training_step's, of a packed row."""

    def __init__(self, model, base, loss, on_loss):
        super().__init__()
        self.m, self.on_loss, self.chunked = model, on_loss, loss.startswith("chunked")
        if not self.chunked:
            base.lm_head.register_forward_hook(lambda *_: on_loss())

    def forward(self, labels, **row):
        if not self.chunked:
            return self.m(labels=labels, use_cache=False, **row)
        hidden = self.m.base_model(use_cache=False, **row).last_hidden_state
        self.on_loss()
        shifted = torch.nn.functional.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
        return training_step.ChunkedLinearCrossEntropy.apply(
            hidden.view(-1, hidden.shape[-1]), self.m.lm_head.weight, shifted.view(-1), labels.numel() - 1)


def build(entry, on_loss):
    base = model = model_of(entry)
    blocks = training_step.blocks_of(model)
    if entry["lora"]:
        emulated_peaks.on_device(model)
        if entry["ac"] != "none":
            model.enable_input_require_grads()
        targets = peft.LoraConfig(r=entry["lora"], lora_alpha=2 * entry["lora"], task_type="CAUSAL_LM",
                                  use_dora=entry["dora"])
        model = peft.get_peft_model(model, targets)
    training_step.checkpoint_blocks(base, emulated_peaks.ac_of(entry))
    if entry["loss"].startswith("chunked:"):
        training_step.CHUNK_TOKENS = int(entry["loss"].removeprefix("chunked:"))
    step = Step(model, base, entry["loss"], on_loss)
    return step, step if entry["lora"] else emulated_peaks.parallel(step, blocks, entry)


def row_of(entry, vocabulary):
    """What TRL 1.16's DataCollatorForLanguageModeling gives with padding_free, on the device."""
    tokens, documents = entry["batch"] * entry["seq"], entry["packing"]
    lengths = torch.tensor([tokens // documents + (i < tokens % documents) for i in range(documents)])
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).to(torch.int32)
    ids = torch.randint(vocabulary, (1, tokens))
    positions = torch.cat([torch.arange(n) for n in lengths])[None]
    labels = ids.masked_fill(positions == 0, -100)
    longest = int(lengths.max())
    return {"input_ids": ids.cuda(), "labels": labels.cuda(), "position_ids": positions.cuda(),
            "cu_seq_lens_q": starts.cuda(), "cu_seq_lens_k": starts.cuda(), "max_length_q": longest,
            "max_length_k": longest}


def train(entry, step, row, optimizer, enter, kept):
    optimizer.zero_grad(set_to_none=True)
    for _ in range(entry["grad_accum"]):
        enter("forward")
        loop_names.before_forward(entry, kept)
        autocast = contextlib.nullcontext()
        if entry["autocast"] != "none":
            autocast = torch.autocast("cuda", DTYPES[entry["autocast"]])
        with autocast:
            out = step(**row)
        loss = out if isinstance(out, torch.Tensor) else out.loss
        loop_names.assign(kept, out if entry["hold_output"] is not False else loss)
        del out
        enter("backward")
        loss.backward()
        del loss
    enter("optimizer")
    optimizer.step()


def steps(entry, marks, build):
    step, trained = build(entry, lambda: marks.enter("loss"))
    parameters = [p for p in step.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, **{"fused" if entry["optimizer"] == "adamw" else "foreach": True})
    row = row_of(entry, step.m.config.get_text_config().vocab_size)
    gc.collect()
    torch.cuda.empty_cache()
    kept, found = [], []
    for _ in range(3 if entry["shard"] == "ddp" else 2):
        marks.figures = {}
        train(entry, trained, row, optimizer, marks.enter, kept)
        marks.enter(None)
        found.append(marks.figures)
    return found


def measure(entry):
    return emulated_peaks.measure(MORE | entry, build=build, steps=steps)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
