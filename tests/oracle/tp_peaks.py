"""Peaks and launches of tensor-parallel steps on the emulated device, as emulated_peaks.py has them.

    ac-advisor dryrun --world N --output /dev/null -- python tp_peaks.py OUTPUT.json [--only LABEL] [--again]

Runs the cases of tp_cases.py that have this world.
"""

import sys

import torch
import transformers

import emulated_peaks
import tp_step
import training_step
from emulated_cases import config_of
from tp_cases import all_cases


def build(entry, on_loss):
    config = transformers.AutoConfig.for_model(**config_of(entry["model"]))
    config._attn_implementation = "eager" if entry["attn"] == "eager" else "sdpa"
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=training_step.DTYPES[entry["param_dtype"]]).train()
    model.tie_weights()
    mesh = tp_step.meshes(entry)
    tp_step.parallelize(model, mesh["tp"], entry)
    blocks = training_step.blocks_of(model)
    ac = entry["ac"].replace("grouped:", "seg").replace("every:", "every").replace("selective", "selop")
    training_step.checkpoint_blocks(model, ac)
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
