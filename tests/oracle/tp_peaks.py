"""Peaks and launches of tensor-parallel steps on the emulated device, as emulated_peaks.py has them.

    ac-advisor dryrun --world N --output /dev/null -- python tp_peaks.py OUTPUT.json [--only LABEL] [--again]

Runs the cases of tp_cases.py that have this world.
"""

import sys

import emulated_peaks
import tp_step
import training_step
from tp_cases import all_cases


def build(entry, on_loss):
    model = emulated_peaks.model_of(entry)
    mesh = tp_step.meshes(entry)
    tp_step.parallelize(model, mesh["tp"], entry)
    blocks = training_step.blocks_of(model)
    training_step.checkpoint_blocks(model, emulated_peaks.ac_of(entry))
    step = training_step.Step(model, entry["loss"].replace("ce", "hf"), on_loss)
    if entry["shard"] == "fsdp2":
        emulated_peaks.shard_over(mesh["dp"], step, blocks, entry)
    emulated_peaks.on_device(step)
    return step, step


def measure(entry):
    entry = {"loss_parallel": True} | entry
    with tp_step.losses(entry):
        return emulated_peaks.measure(entry, build)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(all_cases()), measure, __doc__))
