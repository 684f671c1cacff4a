"""Peaks and launches of training steps whose blocks torch.compile has made of torchao's Float8Linear, on the emulated H100.

    ac-advisor dryrun [--world N] --output /dev/null -- python float8_compile_peaks.py float8_compile_peaks.json

As compile_peaks.py, of float8_peaks.py's layers: TorchTitan compiles each block with its checkpoint, after its linear layers
were converted, and FSDP2 shards what is compiled. Selective checkpoints are TorchTitan's.
"""

import sys

from torchao.float8 import convert_to_float8_training

import compile_peaks
import emulated_peaks
import float8_peaks
import training_step
from float8_peaks import BLOCKS, FSDP, GATHERED, MIXED, config_of, converted, policy, shape

COMPILED = {"kernels": "compiled"}
FAMILIES = ("qwen2_05b_4layers", "qwen3_06b_4layers", "mistral7b_4layers", "smollm3_3b_4layers", "granite31_8b_4layers")
OTHERS = ("phi3_mini_4layers", "olmo2_7b_4layers", "gemma_7b_4layers", "ministral3_8b_4layers", "minicpm_2b_4layers",
          "internlm25_7b_4layers", "glm4_9b_4layers")


def cases():
    for model in ("llama1b_4layers", BLOCKS):
        for ac in ("none", "full", "selective"):
            yield shape(model, 2, 2048, ac, **COMPILED)
        yield shape(model, 1, 4096, **COMPILED)
        yield shape(model, 2, 1024, grad_accum=2, **COMPILED)
        yield shape(model, 2, 2048, "every:2", **COMPILED)
    for model in FAMILIES:
        for ac in ("none", "full"):
            yield shape(model, 2, 2048, ac, **COMPILED)
    yield shape("small_llama", 2, 2048, **COMPILED)
    yield shape("llama1b_4layers", 2, 2048, attn="flash", **COMPILED)
    for model in ("llama1b_4layers", BLOCKS):
        for ac in ("none", "full", "selective"):
            yield shape(model, 2, 2048, ac, **FSDP, **COMPILED)
            yield shape(model, 2, 2048, ac, **FSDP, **GATHERED, **COMPILED)
        for ac in ("none", "selective"):
            yield shape(model, 2, 2048, ac, **MIXED, **COMPILED)
            yield shape(model, 2, 2048, ac, **MIXED, **GATHERED, **COMPILED)
    for model in ("llama1b_4layers", BLOCKS):
        for ac in ("none", "full", "selective"):
            yield shape(model, 2, 2048, ac, "rowwise", **COMPILED)
        yield shape(model, 2, 2048, "selective", "rowwise", **MIXED, **COMPILED)
    for model in ("qwen3_06b_4layers", "mistral7b_4layers"):
        yield shape(model, 2, 2048, "none", "rowwise", **COMPILED)
    for budget in (0.7, 0.5, 0.2):
        yield shape("llama1b_4layers", 2, 2048, f"memory-budget:{budget}", attn="cudnn", **COMPILED)
        yield shape(BLOCKS, 2, 2048, f"memory-budget:{budget}", "rowwise", attn="cudnn", **COMPILED)
    for model in OTHERS:
        yield shape(model, 2, 2048, **COMPILED)
        yield shape(model, 2, 2048, "full", **COMPILED)
    for more in ({}, GATHERED):  # TorchTitan's units
        yield shape(BLOCKS, 2, 2048, "selective", fsdp_unit="torchtitan", hold_output=False, **MIXED, **more, **COMPILED)


def measure(entry):
    training_step.torchtitan_policy = policy
    plain, make_optimizer = emulated_peaks.model_of, emulated_peaks.make_optimizer
    if entry.get("fp8_all_gather"):
        emulated_peaks.make_optimizer = lambda entry, step: float8_peaks.Optimizer(make_optimizer(entry, step), step)
    emulated_peaks.model_of = lambda entry: convert_to_float8_training(
        plain(entry), config=config_of(entry), module_filter_fn=converted)
    try:
        return compile_peaks.measure(entry)
    finally:
        emulated_peaks.model_of, emulated_peaks.make_optimizer = plain, make_optimizer


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
