"""As emulated_peaks.py, of what a user's own loop and its defaults do: names that hold a step's output through the next
forward, DistributedDataParallel's gradients beside their buckets, heads that PyTorch pads for flash attention,
reshard_after_forward of each value, and reentrant checkpoints.

    ac-advisor dryrun [--world N] --output /dev/null -- python user_loop_peaks.py user_loop_peaks.json
"""

import sys

import emulated_cases
import emulated_peaks
import training_step
from generate_peaks import sizes

NEXT = {"held_until": "next-forward"}
FSDP8 = {"shard": "fsdp2", "world": 8}
EXPANDABLE = {"alloc_conf": "expandable_segments:True"}
MIXED = {"param_dtype": "fp32", "compute_dtype": "bf16", "reduce_dtype": "fp32"}
BESIDE = {"shard": "ddp", "gradient_as_bucket_view": False}
ODD = {
    # OpenLLaMA 3B: heads of 100
    "open_llama_3b_4layers": sizes(3200, 8640, 4, 32, 32, 100, 32000, False, model_type="llama"),
    "heads_of_50_4layers": sizes(1600, 4352, 4, 32, 8, 50, 32000, False, model_type="llama"),
    "heads_of_100_windows_4layers": sizes(3200, 8640, 4, 32, 8, 100, 32000, False, model_type="mistral",
                                          sliding_window=512),
}
emulated_cases.VALUES.update(ODD)


def shape(model, batch=2, seq=2048, ac="none", loss="ce", **more):
    return {"model": model, "batch": batch, "seq": seq, "ac": ac, "loss": loss} | more


def held_through_the_next_forward():
    yield shape("llama1b", 8, **NEXT)  # examples/dryrun/plain_step.py
    yield shape("llama1b", 8, ac="full", **NEXT)
    for model in ("qwen3_06b_4layers", "gemma3_1b_6layers", "phi3_mini_4layers"):
        for ac in ("none", "full"):
            yield shape(model, 2, 1024, ac, **NEXT)
    for model in ("gpt2_12layers", "small_llama"):
        yield shape(model, 2, 1024, **NEXT)
    model = "llama1b_4layers"
    for ac in ("none", "full", "every:2", "selective"):
        yield shape(model, 4, ac=ac, **NEXT)
    for more in ({"grad_accum": 2}, {"grad_accum": 3}, {"hold_output": False}, {"loss": "chunked:1024"},
                 {"optimizer": "adamw-foreach"}, EXPANDABLE, {"param_dtype": "fp32"}, FSDP8,
                 FSDP8 | {"grad_accum": 2, "no_sync": True}, BESIDE | {"world": 8}):
        yield shape(model, 2, 1024, "full", **NEXT, **more)
    yield shape(model, **NEXT, **FSDP8)
    yield shape(model, 5, 777, **NEXT)


def beside_buckets():
    for model in ("llama1b_4layers", "gemma3_1b_6layers"):
        for ac in ("none", "full"):
            yield shape(model, 1, 512, ac, **BESIDE, world=8)
    for more in ({"grad_accum": 2}, {"grad_accum": 3, "no_sync": True}, EXPANDABLE, {"optimizer": "adamw-foreach"}):
        yield shape("llama1b_4layers", 2, 1024, "full", **BESIDE, world=8, **more)
    yield shape("small_llama", 4, 1024, **BESIDE, world=8)


def odd_heads():
    for ac in ("none", "full", "selective", "every:2"):
        yield shape("open_llama_3b_4layers", 2, 1024, ac)
    for more in ({"param_dtype": "fp32"}, {"attn": "eager"}, {"grad_accum": 2}, FSDP8):
        yield shape("open_llama_3b_4layers", 1, 1000, "full", **more)
    for more in ({}, {"param_dtype": "fp32"}, {"attn": "flash"}):
        for ac in ("none", "full"):
            yield shape("heads_of_50_4layers", 1, 1000, ac, **more)
    for ac in ("none", "full"):
        yield shape("heads_of_100_windows_4layers", 1, 1024, ac)


def resharding():
    for when in ("false", 4):
        for ac in ("none", "full"):
            yield shape("llama1b_4layers", 2, 1024, ac, **FSDP8, reshard_after_forward=when)
        yield shape("llama1b_4layers", 3, 1000, "full", **FSDP8, **MIXED, reshard_after_forward=when)
    yield shape("llama1b_4layers", 2, 1024, "full", **FSDP8, grad_accum=2, reshard_after_forward=4)


def reentrant():
    for model in ("llama1b_4layers", "gemma3_1b_6layers", "gpt2_12layers"):
        yield shape(model, 2, 1024, "full", ac_reentrant=True)
    for more in ({"grad_accum": 2}, {"seq": 777}, {"attn": "eager"}, BESIDE | {"world": 8}):
        yield shape("llama1b_4layers", ac="full", ac_reentrant=True, **{"seq": 1024} | more)


def all_cases():
    for cases in (held_through_the_next_forward(), beside_buckets(), odd_heads(), resharding(), reentrant()):
        yield from cases


def measure(entry):
    of_blocks = training_step.checkpoint_blocks
    if entry.get("ac_reentrant"):  # transformers' own switch
        training_step.checkpoint_blocks = lambda model, ac: model.gradient_checkpointing_enable({"use_reentrant": True})
    try:
        return emulated_peaks.measure(entry)
    finally:
        training_step.checkpoint_blocks = of_blocks


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(all_cases()), measure, __doc__))
