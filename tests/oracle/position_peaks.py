"""Peaks and launches of training steps whose batch carries position_ids, on the emulated device.

    ac-advisor dryrun [--world N] --output /dev/null -- python position_peaks.py position_peaks.json

As emulated_peaks.py; a case has its keys, autocast and position_ids.
"""

import contextlib
import sys

import torch

import emulated_peaks
from training_step import DTYPES

AUTOCAST = {"param_dtype": "fp32", "autocast": "bf16"}
FSDP8 = {"shard": "fsdp2", "world": 8}
MORE = ({"loss": "chunked:1024"}, FSDP8, FSDP8 | {"ac": "selective"}, {"shard": "ddp", "world": 8}, {"attn": "flash"},
        {"attn": "eager"}, {"alloc_conf": "expandable_segments:True"}, {"grad_accum": 2},
        {"ac": "grouped:2"}, {"optimizer": "adamw-foreach"}, AUTOCAST, AUTOCAST | {"ac": "full"})
FAMILIES = ("qwen2_05b_4layers", "phi3_mini_4layers", "gemma_7b_4layers", "olmo2_7b_4layers", "pythia_14b_4layers",
            "stablelm2_16b_4layers", "glm_9b_4layers", "aya_8b_4layers", "qwen3_30b_a3b_4layers", "small_mixtral")


def shape(model, batch, seq, **more):
    return {"model": model, "batch": batch, "seq": seq, "ac": "none", "loss": "ce", "position_ids": True} | more


def cases():
    for model in ("llama1b_4layers", "qwen3_06b_4layers", "gemma3_1b_6layers"):
        for ac in ("none", "full"):
            yield shape(model, 4, 2048, ac=ac)
    for more in MORE:
        yield shape("llama1b_4layers", 4, 2048, **more)
    for model in FAMILIES:
        yield shape(model, 3, 1000)
    yield shape("llama1b", 8, 2048)


def steps(entry, marks, build):
    autocast = contextlib.nullcontext()
    if entry["autocast"] != "none":
        autocast = torch.autocast("cuda", DTYPES[entry["autocast"]])

    def in_autocast(entry, on_loss):
        step, trained = build(entry, on_loss)
        forward = step.forward

        def under(ids, labels):
            with autocast:
                return forward(ids, labels)

        step.forward = under
        return step, trained

    return emulated_peaks.steps(entry, marks, in_autocast)


def measure(entry):
    return emulated_peaks.measure({"autocast": "none"} | entry, steps=steps)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
