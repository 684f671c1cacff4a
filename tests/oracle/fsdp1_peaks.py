"""Peaks and launches of steps under FSDP's first version on the emulated device.

    for world in 2 3 8 64; do
      ac-advisor dryrun --world $world --output /dev/null -- python fsdp1_peaks.py fsdp1_peaks.json
    done

As emulated_peaks.py: FullyShardedDataParallel around each block and around the model with its loss, with
what `accelerate config` writes (original parameters, full sharding, BACKWARD_PRE, at most two gathers ahead), and
around a block's checkpoint, as accelerate has it; and with the other two prefetches of backward.
"""

import gc
import sys

import torch
from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, MixedPrecision, ShardingStrategy
from torch.distributed.fsdp.wrap import CustomPolicy

import emulated_peaks
import training_step

MIXED = {"param_dtype": "fp32", "compute_dtype": "bf16", "reduce_dtype": "bf16"}
WIDE = MIXED | {"reduce_dtype": "fp32"}
WIDELY_REDUCED = {"reduce_dtype": "fp32"}
PREFETCHES = {"post": BackwardPrefetch.BACKWARD_POST, "none": None}


def shape(model, **more):
    return {"model": model, "batch": 2, "seq": 1024, "ac": "none", "loss": "ce", "world": 8, "shard": "fsdp1"} | more


def cases():
    for model in ("small_llama", "llama1b_4layers", "qwen3_06b_4layers", "mistral7b_4layers"):
        for ac in ("none", "full", "selective"):
            yield shape(model, ac=ac)
            yield shape(model, ac=ac, **MIXED)
        yield shape(model, ac="full", **WIDE)
        yield shape(model, **WIDELY_REDUCED, hold_output=False)
    for model in ("small_llama", "llama1b_4layers"):
        for world in (2, 3, 64):
            yield shape(model, world=world)
            yield shape(model, world=world, ac="full", **MIXED)
        for waiting in ({}, {"no_sync": True}):
            yield shape(model, grad_accum=2, **waiting)
            yield shape(model, grad_accum=4, **waiting, ac="full", **WIDE)
        yield shape(model, batch=3, seq=1000, ac="every:2")
        yield shape(model, batch=3, seq=1000, optimizer="sgd")
        yield shape(model, optimizer="adamw-foreach", ac="full", **MIXED)
        yield shape(model, ac="full", alloc_conf="expandable_segments:True")
        yield shape(model, loss="chunked:1024")
        yield shape(model, ac="full", loss="chunked:1024", **MIXED)
        yield shape(model, clip_grad=1.0)
        yield shape(model, ac="full", clip_grad=1.0, **MIXED)
    for model in ("small_mixtral", "qwen2_05b_4layers", "gemma3_1b_6layers", "smollm17b_untied_4layers"):
        yield shape(model)
        yield shape(model, ac="full", **WIDE)
    for model in ("llama1b", "qwen3_06b"):
        yield shape(model, ac="full", **MIXED, batch=4, seq=2048)
    for prefetch in PREFETCHES:
        for ac in ("none", "full"):
            yield shape("llama1b_4layers", ac=ac, backward_prefetch=prefetch)
        yield shape("mistral7b_4layers", ac="full", **WIDE, backward_prefetch=prefetch)
        yield shape("llama1b_4layers", ac="full", **MIXED, grad_accum=2, backward_prefetch=prefetch)
    for family in ("llama", "qwen2", "gemma2", "phi3", "gpt2", "olmo2"):
        yield shape(f"tiny_{family}", batch=2, seq=64, world=3)


def wrapped(step, entry, **more):
    """In units of blocks and a root, as accelerate wraps a model; `more` as FullyShardedDataParallel takes it."""
    emulated_peaks.on_device(step)
    blocks = {id(block) for block in training_step.blocks_of(step.m)}  # with the checkpoints around them
    dtypes = {name: training_step.DTYPES[entry[name]] for name in ("compute_dtype", "reduce_dtype")}
    mixed = any(dtype != training_step.DTYPES[entry["param_dtype"]] for dtype in dtypes.values())
    return FullyShardedDataParallel(
        step, auto_wrap_policy=CustomPolicy(lambda module: id(module) in blocks),
        mixed_precision=MixedPrecision(dtypes["compute_dtype"], dtypes["reduce_dtype"]) if mixed else None,
        sharding_strategy=ShardingStrategy.FULL_SHARD,
        backward_prefetch=PREFETCHES.get(entry.get("backward_prefetch"), BackwardPrefetch.BACKWARD_PRE),
        limit_all_gathers=True, forward_prefetch=False, use_orig_params=True, device_id=torch.cuda.current_device(), **more)


def parallel(step, blocks, entry):
    trained = wrapped(step, entry)
    # Shards get memory of their own: what they were cut from leaves none of its blocks behind.
    handles = [module._handle for module in FullyShardedDataParallel.fsdp_modules(trained)]
    for handle in handles:
        handle.flat_param_to("cpu")
    gc.collect()
    torch.cuda.empty_cache()
    for handle in handles:
        handle.flat_param_to("cuda")
    return trained


class Clipping:
    """FullyShardedDataParallel.clip_grad_norm_ before each step."""

    def __init__(self, optimizer, trained, norm):
        self.optimizer, self.trained, self.norm = optimizer, trained, norm
        self.zero_grad = optimizer.zero_grad

    def step(self):
        self.trained.clip_grad_norm_(self.norm)
        self.optimizer.step()


def build(entry, on_loss):
    step, trained = emulated_peaks.build(entry, on_loss)
    step.trained = [trained]  # not a module of its own
    return step, trained


def make_optimizer(entry, step, plain=emulated_peaks.make_optimizer):
    optimizer = plain(entry, step)
    return Clipping(optimizer, step.trained[0], entry["clip_grad"]) if "clip_grad" in entry else optimizer


def measure(entry):
    return emulated_peaks.measure(entry, build)


emulated_peaks.parallel, emulated_peaks.make_optimizer = parallel, make_optimizer

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
