"""Peaks and launches of FSDP2's CPUOffloadPolicy on the emulated device: parameters, gradients and optimizer states on
the host, a unit's shards copied to the device before each of its all-gathers.

    ac-advisor dryrun --world N --output /dev/null -- python host_offload_peaks.py host_offload_peaks.json

As emulated_peaks.py, with what PyTorch has pinned on the host. Gradients are not
clipped: their norm is reduced between hosts by Gloo, which one process alone has not.
"""

import sys

import torch
from torch.distributed.fsdp import CPUOffloadPolicy

import emulated_peaks

MIXED = {"param_dtype": "fp32", "compute_dtype": "bf16", "reduce_dtype": "fp32"}


def shape(model, **more):
    return {"model": model, "batch": 2, "seq": 1024, "ac": "none", "loss": "ce", "world": 8, "shard": "fsdp2",
            "offload": "parameters"} | more


def cases():
    for model in ("small_llama", "llama1b_4layers", "qwen3_06b_4layers", "mistral7b_4layers"):
        for ac in ("none", "full", "selective"):
            yield shape(model, ac=ac)
            yield shape(model, ac=ac, **MIXED)
        yield shape(model, ac="full", optimizer="adamw-foreach", batch=1, seq=2048)
        yield shape(model, ac="full", **MIXED, hold_output=False, keep_last_block=True)
    for model in ("small_llama", "llama1b_4layers"):
        yield shape(model, grad_accum=2)
        yield shape(model, grad_accum=3, **MIXED, ac="full")
        yield shape(model, optimizer="sgd", batch=3, seq=1000)
        yield shape(model, shard="hsdp:4", ac="full")
        yield shape(model, shard="hsdp:4", **MIXED)
        yield shape(model, world=2, ac="full", loss="chunked:1024")
    yield shape("mistral7b_4layers", **MIXED, fsdp_unit="torchtitan", ac="selective")
    yield shape("qwen2_05b_4layers", **MIXED, ac="full", alloc_conf="expandable_segments:True")
    yield shape("small_mixtral", **MIXED, ac="full")
    yield shape("gemma3_1b_6layers", **MIXED, ac="full")


def parallel(step, blocks, entry):
    ranks, names = (entry["world"],), ("shard",)
    if entry["shard"].startswith("hsdp:"):
        group = int(entry["shard"].removeprefix("hsdp:"))
        ranks, names = (entry["world"] // group, group), ("replicate", "shard")
    mesh = torch.distributed.init_device_mesh("cuda", ranks, mesh_dim_names=names)
    emulated_peaks.shard_over(mesh, step, blocks, entry, offload_policy=CPUOffloadPolicy())
    emulated_peaks.on_device(step, of_parameters="cpu")
    return step


def measure(entry):
    """host_pinned: of a process's first case alone, as PyTorch keeps what it has pinned."""
    first = not torch.cuda.host_memory_stats().get("allocated_bytes.current", 0)
    plain, emulated_peaks.parallel = emulated_peaks.parallel, parallel
    figures = emulated_peaks.measure(entry)
    emulated_peaks.parallel = plain
    return figures | ({"host_pinned": torch.cuda.host_memory_stats()["allocated_bytes.peak"]} if first else {})


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
