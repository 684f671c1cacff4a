"""Peaks and launches of training steps in fp16 on the emulated device: autocast or FSDP2's mixed precision with
torch.amp.GradScaler, and pure fp16 parameters.

    ac-advisor dryrun [--world N] --output /dev/null -- python fp16_peaks.py fp16_peaks.json

As emulated_peaks.py; a case has its keys, and autocast, grad_scaler and clip_grad.
"""

import contextlib
import gc
import sys

import torch

import emulated_peaks
import loop_names
from training_step import DTYPES

MORE = {"autocast": "none", "grad_scaler": False, "clip_grad": 0.0}
AUTOCAST = {"param_dtype": "fp32", "autocast": "fp16", "grad_scaler": True}
MIXED = {"param_dtype": "fp32", "compute_dtype": "fp16", "reduce_dtype": "fp32", "grad_scaler": True, "shard": "fsdp2",
         "world": 8}
PURE = {"param_dtype": "fp16", "compute_dtype": "fp16", "reduce_dtype": "fp16"}
REAL = ("llama1b_4layers", "qwen3_06b_4layers")


def shape(model, batch, seq, **more):
    return {"model": model, "batch": batch, "seq": seq, "ac": "none", "loss": "ce"} | more


def cases():
    for model in ("small_llama", *REAL):
        for ac in ("none", "full", "selective"):
            yield shape(model, 2, 1024, **AUTOCAST) | {"ac": ac}
        yield shape(model, 2, 1024, optimizer="adamw-foreach", **AUTOCAST)
        yield shape(model, 2, 1024, clip_grad=1.0, **AUTOCAST)
        yield shape(model, 2, 1024, clip_grad=1.0, optimizer="adamw-foreach", **AUTOCAST) | {"ac": "full"}
        yield shape(model, 1, 1024, grad_accum=3, clip_grad=1.0, **AUTOCAST)
        yield shape(model, 2, 1024, attn="flash", **AUTOCAST)
        yield shape(model, 2, 1024, hold_output=False, **AUTOCAST)
        yield shape(model, 2, 1024, shard="ddp", world=8, **AUTOCAST)
        for ac in ("none", "full", "selective"):
            yield shape(model, 2, 1024, **MIXED) | {"ac": ac}
        yield shape(model, 2, 1024, optimizer="adamw-foreach", clip_grad=1.0, **MIXED)
        yield shape(model, 1, 1024, grad_accum=2, **MIXED) | {"ac": "full"}
        yield shape(model, 2, 1024, **PURE)
        yield shape(model, 2, 1024, optimizer="adamw-foreach", clip_grad=1.0, **PURE) | {"ac": "full"}
        yield shape(model, 2, 1024, shard="fsdp2", world=8, **PURE)
    for model in ("olmo3_7b_4layers", "command_r7b_4layers"):  # a window's mask is of what autocast made of the queries
        yield shape(model, 1, 6000, **AUTOCAST)
    yield shape("small_llama", 3, 1000, attn="eager", **AUTOCAST)
    yield shape("small_llama", 3, 1000, optimizer="sgd", **AUTOCAST)


def train(entry, step, batch, optimizer, scaler, enter, kept, around=contextlib.nullcontext()):
    """PyTorch's recipe (docs/source/notes/amp_examples.rst, v2.11). `around` a micro-batch's forward and backward."""
    optimizer.zero_grad(set_to_none=True)
    autocast = contextlib.nullcontext()
    if entry["autocast"] != "none":
        autocast = torch.autocast("cuda", DTYPES[entry["autocast"]])
    for number in range(entry["grad_accum"]):
        enter("forward")
        loop_names.before_forward(entry, kept)
        with emulated_peaks.synchronized(entry, step, number), around:
            with autocast:
                out = step(**batch)
            loss = out if isinstance(out, torch.Tensor) else out.loss
            loop_names.assign(kept, out if entry["hold_output"] is not False else loss)
            del out
            scaled = scaler.scale(loss)
            enter("backward")
            scaled.backward()
            del loss, scaled
    enter("optimizer")
    if entry["clip_grad"]:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(step.parameters(), entry["clip_grad"], foreach=True)
    scaler.step(optimizer)
    scaler.update()


def steps(entry, marks, build):
    step, trained = build(entry, lambda: marks.enter("loss"))
    optimizer = emulated_peaks.make_optimizer(entry, step)
    scaler = torch.amp.GradScaler("cuda", enabled=entry["grad_scaler"])
    vocabulary = step.m.config.get_text_config().vocab_size
    ids, labels = (torch.randint(vocabulary, (entry["batch"], entry["seq"])).cuda() for _ in range(2))
    gc.collect()
    torch.cuda.empty_cache()
    kept, found = [], []
    for _ in range(3 if entry["shard"] == "ddp" else 2):
        marks.figures = {}
        train(entry, trained, {"ids": ids, "labels": labels}, optimizer, scaler, marks.enter, kept)
        marks.enter(None)
        found.append(marks.figures)
    assert optimizer.state or entry["optimizer"] == "sgd", "the step was skipped"
    return found


def measure(entry):
    return emulated_peaks.measure(MORE | entry, steps=steps)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
