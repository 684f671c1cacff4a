"""Peaks and launches of FSDP2's CPUOffloadPolicy on the emulated device: parameters, gradients and optimizer states on
the host, a unit's shards copied to the device before each of its all-gathers.

    ac-advisor dryrun --world N --output /dev/null -- python host_offload_peaks.py host_offload_peaks.json

As emulated_peaks.py, with what PyTorch has pinned on the host. Norms
of gradients on the host are reduced by PyTorch's fake process group, as Gloo has no other ranks here.
"""

import sys

import torch
from peft import LoraConfig, get_peft_model
from torch.distributed.fsdp import CPUOffloadPolicy

import emulated_peaks

TARGETS = "q_proj,v_proj,down_proj"
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
    for model in ("small_llama", "llama1b_4layers", "qwen3_06b_4layers"):
        yield shape(model, **MIXED, ac="full", clip_grad=1.0)
        yield shape(model, clip_grad=1.0, optimizer="adamw-foreach")
        for ac in ("none", "full"):
            yield shape(model, ac=ac, lora=8, lora_targets=TARGETS, lora_dtype="bf16", input_require_grads="off")
            yield shape(model, ac=ac, lora=8, lora_targets=TARGETS, input_require_grads="off", clip_grad=1.0)
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


def model_of(entry):
    model = plain["model_of"](entry)
    if "lora" not in entry:
        return model
    config = LoraConfig(r=entry["lora"], lora_alpha=2 * entry["lora"], target_modules=entry["lora_targets"].split(","))
    wide = entry.get("lora_dtype", "fp32") == "fp32"  # on the meta device PEFT has nothing to cast
    adapted = get_peft_model(model, config, autocast_adapter_dtype=wide)
    return adapted.base_model.model


class Clipping:
    """torch.nn.utils.clip_grad_norm_ before each step."""

    def __init__(self, optimizer, parameters, norm):
        self.optimizer, self.parameters, self.norm = optimizer, parameters, norm
        self.zero_grad = optimizer.zero_grad

    def step(self):
        torch.nn.utils.clip_grad_norm_(self.parameters, self.norm)
        self.optimizer.step()


def make_optimizer(entry, step):
    optimizer = plain["make_optimizer"](entry, step)
    return Clipping(optimizer, list(step.parameters()), entry["clip_grad"]) if "clip_grad" in entry else optimizer


plain = {name: getattr(emulated_peaks, name) for name in ("parallel", "model_of", "make_optimizer")}


def measure(entry):
    """host_pinned: of a process's first case alone, as PyTorch keeps what it has pinned."""
    first = not torch.cuda.host_memory_stats().get("allocated_bytes.current", 0)
    if "clip_grad" in entry:  # emulated_peaks.nothing_left has left no group but NCCL's
        torch.distributed.destroy_process_group()
        torch.distributed.init_process_group("cpu:fake,cuda:nccl")
    figures = emulated_peaks.measure(entry)
    return figures | ({"host_pinned": torch.cuda.host_memory_stats()["allocated_bytes.peak"]} if first else {})


emulated_peaks.parallel, emulated_peaks.model_of, emulated_peaks.make_optimizer = parallel, model_of, make_optimizer

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
