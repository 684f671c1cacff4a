"""Peaks and launches of tensor-parallel steps whose blocks torch.compile has made, on the emulated device.

    ac-advisor dryrun --world N --output /dev/null -- python compile_tp_peaks.py compile_tp_peaks.json

As tp_peaks.py; each block, with its checkpoint around it, is compiled after its layers were split and before FSDP2 shards
it, as TorchTitan does it without async TP (models/llama3/infra/parallelize.py). Cases with fp8 have
float8_tp_peaks.py's layers.
"""

import sys

import compile_peaks
import emulated_peaks
import float8_tp_peaks
import tp_peaks
import training_step
from emulated_cases import case
from tp_cases import MIXED, alone, sharded

COMPILED = {"kernels": "compiled"}
TIED = "llama1b_4layers"
TITAN = MIXED | {"fsdp_unit": "torchtitan", "hold_output": False}


def cases():
    for model in ("smollm17b_untied_4layers", TIED):
        for ac in ("none", "full", "selective"):
            yield case(model, 2, 2048, ac, **alone(2), **COMPILED)
            yield case(model, 2, 2048, ac, **sharded(8, 4), **(MIXED if model == TIED else TITAN), **COMPILED)
            yield case(model, 1, 4096, ac, **alone(4), **COMPILED)
    for model in ("mistral7b_4layers", "qwen2_05b_4layers", "qwen3_06b_4layers"):
        yield case(model, 2, 2048, "none", **alone(2), **COMPILED)
        yield case(model, 2, 2048, "full", **sharded(8, 2), **COMPILED)
        yield case(model, 1, 2048, "selective", **sharded(8, 2), **MIXED, **COMPILED)
    yield case("smollm17b_untied_4layers", 2, 2048, "none", **alone(8), **COMPILED)
    yield case("smollm17b_untied_4layers", 2, 2048, "memory-budget:0.5", **alone(2), attn="cudnn", **COMPILED)
    yield case("mistral7b_4layers", 1, 4096, "none", **alone(8), grad_accum=2, **COMPILED)
    for recipe in ("tensorwise", "rowwise"):
        for ac in ("none", "full", "selective"):
            yield case("smollm17b_untied_4layers", 2, 2048, ac, **alone(2), fp8=recipe, **COMPILED)
            yield case("mistral7b_4layers", 1, 4096, ac, **sharded(8, 4), **TITAN, fp8=recipe, **COMPILED)


def compiled(entry, measure):
    """What `measure` measures, of blocks that are compiled before FSDP2 shards them."""
    shard_over = emulated_peaks.shard_over
    emulated_peaks.shard_over = lambda mesh, step, _, e: shard_over(mesh, step, training_step.blocks_of(step.m), e)
    try:
        with compile_peaks.compiling(entry), float8_tp_peaks.converting(entry):
            return measure(entry)
    finally:
        emulated_peaks.shard_over = shard_over


def measure(entry):
    return compiled(entry, tp_peaks.measure)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__, tp_peaks.mine))
