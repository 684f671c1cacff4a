"""Peaks and launches of training steps whose blocks' linear layers are torchao's MXFP8Linear, on the emulated B200.

    ac-advisor dryrun --gpu b200 [--world N] --output /dev/null -- python mx_peaks.py mx_peaks.json

As float8_peaks.py; what is converted are linear layers whose sizes are multiples of 32, but the head. torchao's
quantize_ with MXFP8TrainingOpConfig asks for a PyTorch later than 2.11; the module is the same function. Triton forgets
between cases what it tuned, as each step would begin in a process of its own.
"""

import sys

import torch
from torchao.prototype.moe_training.mxfp8_linear import MXFP8Linear
from torchao.prototype.mx_formats.kernels import to_mxfp8_dim0_kernel

import emulated_peaks
import training_step
from float8_peaks import BLOCKS, FAMILIES, FSDP, MIXED, policy
from float8_peaks import shape as float8_shape

SMALL = ("small_llama", "llama1b_4layers", "qwen2_05b_4layers", "qwen3_06b_4layers", BLOCKS)


def shape(*args, **more):
    return float8_shape(*args, fp8="mx", **more) | {"gpu": "b200"}


def cases():
    for model in SMALL:
        for ac in ("none", "full", "selective"):
            yield shape(model, 2, 2048, ac)
    for model in FAMILIES:
        yield shape(model, 2, 2048)
    for model in ("llama1b_4layers", "qwen3_06b_4layers"):
        yield shape(model, 3, 1024, "full")
        yield shape(model, 3, 992)
        yield shape(model, 1, 128)
        yield shape(model, 1, 4096, "full", attn="flash")
        yield shape(model, 2, 1024, grad_accum=2)
        yield shape(model, 2, 2048, "every:2")
        yield shape(model, 2, 2048, "grouped:2")
        yield shape(model, 2, 2048, "full") | {"loss": "chunked:1024"}
        yield shape(model, 2, 2048, "full", optimizer="adamw-foreach")
        yield shape(model, 2, 2048, shard="ddp", world=8)
        yield shape(model, 2, 2048, "full", shard="ddp", world=8)
        yield shape(model, 2, 2048, "full", shard="hsdp:4", world=8)
        for ac in ("none", "full", "selective"):
            yield shape(model, 2, 2048, ac, **MIXED)
        yield shape(model, 2, 1024, "full", grad_accum=2, no_sync=True, **MIXED)
        yield shape(model, 2, 2048, "full", **FSDP)
    yield shape(BLOCKS, 2, 2048, "selective", fsdp_unit="torchtitan", hold_output=False, **MIXED)


def converted(model):
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is not torch.nn.Linear or name == "lm_head" or any(n % 32 for n in child.weight.shape):
                continue
            made = MXFP8Linear(child.in_features, child.out_features, bias=child.bias is not None, device="meta",
                               dtype=child.weight.dtype)
            made.weight, made.bias = child.weight, child.bias
            setattr(parent, name, made)
    return model


def measure(entry):
    to_mxfp8_dim0_kernel.cache.clear()
    training_step.torchtitan_policy = policy
    plain = emulated_peaks.model_of
    emulated_peaks.model_of = lambda entry: converted(plain(entry))
    try:
        return emulated_peaks.measure(entry)
    finally:
        emulated_peaks.model_of = plain


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__, gpu="b200"))
