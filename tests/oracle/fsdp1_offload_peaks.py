"""Peaks and launches of FSDP's first version with CPUOffload(offload_params=True) on the emulated device: shards, their
gradients and the optimizer on the host.

    for world in 2 3 4 8; do
      ac-advisor dryrun --world $world --output /dev/null -- python fsdp1_offload_peaks.py fsdp1_offload_peaks.json
    done

As fsdp1_peaks.py, of steps that a seeded generator draws, with what PyTorch has pinned on the host.
"""

import gc
import sys

import torch
from torch.distributed.fsdp import CPUOffload

import emulated_peaks
import fsdp1_peaks
from drawn_cases import distinct

SEED, COUNT = 29, 32
MODELS = ("small_llama", "llama1b_4layers", "qwen3_06b_4layers", "mistral7b_4layers", "qwen2_05b_4layers",
          "gemma3_1b_6layers", "smollm17b_untied_4layers", "small_mixtral", "tiny_olmo2")
PRECISIONS = ({}, {}, fsdp1_peaks.MIXED, fsdp1_peaks.MIXED, fsdp1_peaks.WIDE, fsdp1_peaks.WIDELY_REDUCED)
SIZES = ((1, 512), (1, 1777), (1, 2048), (2, 640), (2, 1024), (3, 1000), (4, 512), (4, 1024))


def draw(generator, model):
    batch, seq = (2, 64) if model.startswith("tiny") else generator.choice(SIZES)
    entry = {"model": model, "batch": batch, "seq": seq, "ac": generator.choice(("none", "full", "selective", "every:2")),
             "loss": generator.choice(("ce", "ce", "ce", "chunked:1024")), "world": generator.choice((2, 3, 4, 8)),
             "shard": "fsdp1", "offload": "parameters"} | generator.choice(PRECISIONS)
    if generator.random() < 0.4:
        entry["backward_prefetch"] = generator.choice(("post", "none"))
    if generator.random() < 0.5:
        entry["optimizer"] = generator.choice(("adamw-foreach", "sgd"))
    if generator.random() < 0.35:
        entry["clip_grad"] = 1.0
    if generator.random() < 0.35:
        entry |= {"grad_accum": generator.choice((2, 3, 4)), "no_sync": True}
    if generator.random() < 0.25:
        entry["alloc_conf"] = "expandable_segments:True"
    if generator.random() < 0.25:
        entry["hold_output"] = False
    return entry


def cases():
    return distinct(SEED, COUNT, MODELS, draw, lambda entry: True)


def parallel(step, blocks, entry):
    trained = fsdp1_peaks.wrapped(step, entry, cpu_offload=CPUOffload(offload_params=True))
    gc.collect()
    return trained


def measure(entry):
    """host_pinned: of a process's first case alone, as PyTorch keeps what it has pinned."""
    first = not torch.cuda.host_memory_stats().get("allocated_bytes.current", 0)
    figures = fsdp1_peaks.measure(entry)
    return figures | ({"host_pinned": torch.cuda.host_memory_stats()["allocated_bytes.peak"]} if first else {})


emulated_peaks.parallel = parallel

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
