"""Peaks and launches of steps whose optimizer keeps more, or keeps it elsewhere, on the emulated device: Transformer
Engine's FusedAdam with fp32 masters, torchao's CPUOffloadOptimizer, and the norm of FSDP2's gradients.

    ac-advisor dryrun [--world N] --output /dev/null -- python optimizer_peaks.py optimizer_peaks.json

As emulated_peaks.py. PYTHONPATH has transformer_engine 2.14's Python files (fused_adam.py).
"""

import sys

import torch

import emulated_peaks

MODELS = ("small_llama", "llama1b_4layers", "qwen3_06b_4layers", "mistral7b_4layers")


def shape(model, **more):
    return {"model": model, "batch": 2, "seq": 1024, "ac": "none", "loss": "ce"} | more


def masters():
    for model in MODELS:
        for ac in ("none", "full", "selective"):
            yield shape(model, ac=ac, master_weights=True)
        for sharding in ({"world": 8, "shard": "fsdp2"}, {"world": 8, "shard": "hsdp:4"}, {"world": 8, "shard": "ddp"}):
            yield shape(model, ac="full", **sharding, master_weights=True)
        yield shape(model, world=8, shard="fsdp2", reduce_dtype="fp32", keep_last_block=True, master_weights=True)
    yield shape("llama1b_4layers", grad_accum=3, ac="full", master_weights=True)
    yield shape("llama1b_4layers", world=2, shard="fsdp2", loss="chunked:1024", ac="full", master_weights=True)
    yield shape("small_mixtral", ac="full", master_weights=True)
    yield shape("gemma3_1b_6layers", ac="full", master_weights=True)


def states_on_host():
    for model in MODELS:
        for what in ("optimizer", "gradients"):
            for ac in ("none", "full", "selective"):
                yield shape(model, ac=ac, offload=what)
            yield shape(model, ac="full", batch=1, seq=2048, param_dtype="fp32", compute_dtype="fp32", offload=what)
    for model in ("small_llama", "llama1b_4layers"):
        yield shape(model, grad_accum=3, ac="full", offload="optimizer")
        for what in ("optimizer", "gradients"):
            yield shape(model, optimizer="sgd", offload=what)
            yield shape(model, ac="full", batch=3, seq=1000, hold_output=False, offload=what)
            yield shape(model, ac="full", loss="chunked:1024", offload=what)
    for model in ("small_mixtral", "gemma3_1b_6layers", "qwen2_05b_4layers"):
        for what in ("optimizer", "gradients"):
            yield shape(model, ac="full", offload=what)


def clipped():
    """torch.nn.utils.clip_grad_norm_ of DTensors."""
    for model in MODELS:
        for sharding in ({"world": 8, "shard": "fsdp2"}, {"world": 8, "shard": "hsdp:4"}):
            yield shape(model, ac="full", **sharding, clip_grad=1.0)
    yield shape("llama1b_4layers", world=2, shard="fsdp2", clip_grad=1.0, optimizer="adamw-foreach")
    yield shape("small_llama", world=8, shard="fsdp2", clip_grad=1.0, optimizer="sgd", grad_accum=2)
    yield shape("mistral7b_4layers", world=8, shard="fsdp2", clip_grad=1.0, reduce_dtype="fp32", param_dtype="fp32",
                compute_dtype="bf16", ac="full")


def cases():
    yield from clipped()
    yield from masters()
    yield from states_on_host()


class Clipping:
    def __init__(self, optimizer, parameters, norm):
        self.optimizer, self.parameters, self.norm = optimizer, parameters, norm
        self.zero_grad = optimizer.zero_grad

    def step(self):
        torch.nn.utils.clip_grad_norm_(self.parameters, self.norm)
        self.optimizer.step()


def make_optimizer(entry, step):
    if "clip_grad" in entry:
        return Clipping(plain(entry, step), list(step.parameters()), entry["clip_grad"])
    if entry.get("master_weights"):
        from fused_adam import fused_adam

        return fused_adam()(step.parameters(), lr=1e-3, master_weights=True)
    if "offload" in entry:
        from torchao.optim import CPUOffloadOptimizer

        kind = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[entry["optimizer"]]
        made.append(CPUOffloadOptimizer(step.parameters(), kind, lr=1e-3, fused=True,
                                        offload_gradients=entry["offload"] == "gradients"))
        return made[-1]
    return plain(entry, step)


made = []
plain, emulated_peaks.make_optimizer = emulated_peaks.make_optimizer, make_optimizer


def measure(entry):
    """host_pinned: of a process's first case alone, as PyTorch keeps what it has pinned."""
    first = not torch.cuda.host_memory_stats().get("allocated_bytes.current", 0)
    figures = emulated_peaks.measure(entry)
    while made:  # its hooks hold it, and it the parameters, in a cycle that Python does not see
        optimizer = made.pop()
        for held in ("param_d2h_map", "optim_dict", "d_opt", "d_param_groups"):
            delattr(optimizer, held)
    pinned = torch.cuda.host_memory_stats().get("allocated_bytes.peak", 0)
    return figures | ({"host_pinned": pinned} if first and "offload" in entry else {})


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
