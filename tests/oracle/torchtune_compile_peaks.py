"""As torchtune_peaks.py, with `compile: True`: the layers are compiled one by one, a checkpoint is put around each, and the
loss of a chunk is compiled too (training/_compile.py).

    ac-advisor dryrun [--world N] --output /dev/null -- python torchtune_compile_peaks.py torchtune_compile_peaks.json
"""

import sys

import torch

import compile_peaks  # how Inductor is set
import emulated_peaks
from torchtune_peaks import ATTENTION_AND_MLP, MODELS, build, shape, steps


def cases():
    for model in MODELS:
        for ac in ("full", "none"):
            yield shape(model, ac=ac, kernels="compiled")
            yield shape(model, ac=ac, kernels="compiled", batch=3, seq=1000, grad_accum=2)
            yield shape(model, ac=ac, kernels="compiled", world=8, shard="fsdp2")
    for model in MODELS[1:4]:
        for ac in ("full", "none"):
            yield shape(model, ac=ac, kernels="compiled", lora=8, lora_targets=ATTENTION_AND_MLP)


def measure(entry):
    torch._dynamo.reset()
    return emulated_peaks.measure(entry, build=build, steps=steps)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
