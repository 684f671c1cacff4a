"""Peaks and launches of tensor-parallel steps on the emulated device, as emulated_peaks.py has them.

    ac-advisor dryrun --world N --output /dev/null -- python tp_peaks.py OUTPUT.json [--only LABEL] [--again]

Runs the cases of tp_cases.py that have this world; those with replicas in a process of their own, by --only hsdp, as
DTensor remembers groups by their names, and a mesh of three dimensions has other ones.
"""

import sys

from accelerate.utils import convert_outputs_to_fp32

import emulated_peaks
import optimizer_peaks  # noqa: F401: its optimizers clip
import tp_step
import training_step
from tp_cases import all_cases


def build(entry, on_loss):
    model = emulated_peaks.model_of(entry)
    mesh = tp_step.meshes(entry)
    tp_step.parallelize(model, mesh["tp"], entry)
    if entry.get("output_dtype") == "fp32":
        model.forward = convert_outputs_to_fp32(model.forward)
    blocks = training_step.blocks_of(model)
    training_step.checkpoint_blocks(model, emulated_peaks.ac_of(entry))
    step = training_step.Step(model, entry["loss"].replace("ce", "hf"), on_loss)
    if entry["shard"] != "none":
        emulated_peaks.shard_over(mesh["dp"], step, blocks, entry)
    emulated_peaks.on_device(step)
    return step, step


def measure(entry):
    entry = {"loss_parallel": True} | entry
    with tp_step.losses(entry):
        return emulated_peaks.measure(entry, build)


def mine(entry):
    return entry.get("shard", "none").startswith("hsdp") == ("hsdp" in sys.argv)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(all_cases()), measure, __doc__, mine))
