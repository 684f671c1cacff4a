"""Peaks and launches of training steps whose gradients DistributedDataParallel compresses, on the emulated device:
PyTorch's bf16, fp16 and PowerSGD hooks, and examples/grad_compression/topk_hook.py.

    ac-advisor dryrun --world 8 --output /dev/null -- python compression_peaks.py compression_peaks.json

As emulated_peaks.py; a case has its keys, and grad_compression. Buckets are made anew in the second step, and what a
hook keeps is made in the third; PowerSGD's callbacks run on 32 streams in turn, each of which gets a cuBLAS workspace.
"""

import pathlib
import sys

from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

import emulated_peaks

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "grad_compression"))
from topk_hook import TopKState, topk_hook  # noqa: E402

WIDE = {"param_dtype": "fp32", "compute_dtype": "fp32", "reduce_dtype": "fp32", "attn": "eager"}
REAL = ("llama1b_4layers", "qwen3_06b_4layers")


def shape(model, how, **more):
    return {"model": model, "batch": 2, "seq": 1024, "ac": "none", "loss": "ce", "shard": "ddp", "world": 8,
            "grad_compression": how} | more


def cases():
    for model in ("small_llama", *REAL):
        for how in ("fp16", "powersgd:1", "powersgd:2", "topk:0.01"):
            yield shape(model, how)
        yield shape(model, "powersgd:4", ac="full")
        yield shape(model, "topk:0.001", ac="full", optimizer="adamw-foreach")
        yield shape(model, "bf16", **WIDE)
        yield shape(model, "powersgd:2", **WIDE)  # fp32 and a higher rank: cuSOLVER, which the device has not
        yield shape(model, "topk:0.05", **WIDE)
    yield shape("small_llama", "powersgd:2", grad_accum=3, no_sync=True)
    yield shape("small_llama", "topk:0.01", grad_accum=2, no_sync=True)


def register(model, how):
    name, _, argument = how.partition(":")
    if name == "powersgd":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=int(argument), start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif name == "topk":
        model.register_comm_hook(TopKState(float(argument)), topk_hook)
    else:
        model.register_comm_hook(None, getattr(default_hooks, name + "_compress_hook"))


def build(entry, on_loss):
    step, trained = emulated_peaks.build(entry, on_loss)
    register(trained, entry["grad_compression"])
    return step, trained


def steps(entry, marks, build):
    count = 40 if "powersgd" in entry["grad_compression"] else 5
    return emulated_peaks.steps(entry, marks, build, count, pause=lambda _: 0.3)


def measure(entry):
    return emulated_peaks.measure(entry, build, steps)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
