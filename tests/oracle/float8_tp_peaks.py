"""Peaks and launches of tensor-parallel steps whose blocks' linear layers are torchao's Float8Linear, on the emulated
device.

    ac-advisor dryrun --world N --output /dev/null -- python float8_tp_peaks.py float8_tp_peaks.json

As tp_peaks.py; a case has its keys, and fp8 and fp8_all_gather. Tensorwise layers are split by torchao's classes, as
TorchTitan 0.2.2 has them, rowwise ones by PyTorch's (torchtitan/models/llama3/infra/parallelize.py).
"""

import contextlib
import sys

from torch.distributed.tensor import Replicate, Shard
from torchao.float8.float8_tensor_parallel import (
    Float8ColwiseParallel, Float8RowwiseParallel, PrepareFloat8ModuleInput)

import emulated_peaks
import float8_peaks
import tp_peaks
import tp_step
from emulated_cases import case
from tp_cases import MIXED, alone, sharded

PLAN = tp_step.block_plan
TITAN = MIXED | {"fsdp_unit": "torchtitan", "hold_output": False}
GATHERED = {"fp8": "tensorwise", "fp8_all_gather": True}


def cases():
    for recipe in ("tensorwise", "rowwise"):
        fp8 = {"fp8": recipe}
        for model in ("smollm17b_untied_4layers", "llama1b_4layers"):
            for ac in ("none", "full", "selective"):
                yield case(model, 2, 2048, ac, **alone(2), **fp8)
                yield case(model, 2, 2048, ac, **sharded(8, 2), **MIXED, **fp8)
            yield case(model, 2, 2048, "full", **alone(8), **fp8)
        yield case("mistral7b_4layers", 1, 4096, "none", **alone(4), **fp8)
        yield case("mistral7b_4layers", 2, 2048, "selective", **sharded(8, 4), **TITAN, **fp8)
        yield case("qwen3_06b_4layers", 2, 2048, "full", **alone(2), **fp8)
        yield case("smollm17b_untied_4layers", 2, 2048, "full", world=8, tp=2, shard="hsdp:2", **MIXED, **fp8)
    # With a selective checkpoint this step ends with torchao's error (a scale that is no DTensor); as a stage's it is
    # in float8_pp_peaks.json.
    for ac in ("none", "full"):
        yield case("smollm17b_untied_4layers", 2, 2048, ac, **sharded(8, 2), **TITAN, **GATHERED)


def float8_plan(block):
    """tp_step's, by torchao's classes."""
    shard, whole = Shard(1), Replicate()
    columns = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
    return PLAN(block) | {name: Float8ColwiseParallel() for name in columns} | {
        name: Float8RowwiseParallel(output_layouts=shard) for name in ("self_attn.o_proj", "mlp.down_proj")} | {
        "self_attn": PrepareFloat8ModuleInput(
            input_kwarg_layouts={"hidden_states": shard}, desired_input_kwarg_layouts={"hidden_states": whole}),
        "mlp": PrepareFloat8ModuleInput(input_layouts=(shard,), desired_input_layouts=(whole,))}


@contextlib.contextmanager
def converting(entry):
    """As float8_peaks.converting; tensorwise layers are split by torchao's classes. Of a case without fp8 nothing."""
    if not entry.get("fp8"):
        yield
        return
    tp_step.block_plan = float8_plan if entry["fp8"] == "tensorwise" else PLAN
    try:
        with float8_peaks.converting(entry):
            yield
    finally:
        tp_step.block_plan = PLAN


def measure(entry):
    with converting(entry):
        return tp_peaks.measure(entry)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__, tp_peaks.mine))
