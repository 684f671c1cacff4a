"""What torch.compile keeps of a block that ranks share, for seven memory budgets.

    ac-advisor dryrun --world N --output /dev/null -- python tp_saved.py tp_saved.json [--joint FILE]

As compile_saved.py, of the first block of a model that tp_step.py splits over N ranks, which waits for the embedding; a
case has `tp`, too. Cases with `fp8` have float8_tp_peaks.py's layers. `--joint` writes the joint graphs.
"""

import argparse
import json
import os
import sys

import torch
import torch.distributed as dist

import compile_saved
import emulated_peaks
import float8_tp_peaks
import tp_step
from emulated_cases import config_of

MODELS = ("llama1b", "smollm17b_untied_4layers", "mistral7b", "qwen3_06b_4layers", "smollm3_3b_4layers")
RECIPES = (None, "tensorwise", "rowwise")
SIZES = ((2, 2048), (1, 1024))


def measure(model, batch, seq, recipe, mesh, joint):
    of_step = {"loss_parallel": True, "seq": seq, "fp8": recipe}

    def split(entry):
        whole = plain(entry | of_step)
        tp_step.parallelize(whole, mesh, of_step)
        return whole

    with float8_tp_peaks.converting(of_step), tp_step.losses(of_step):
        plain = emulated_peaks.model_of
        return compile_saved.measure_of(split, model, batch, seq, joint)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--joint", help="where to write joint graphs")
    options = parser.parse_args()
    dist.init_process_group("nccl")
    ranks = dist.get_world_size()
    mesh = dist.init_device_mesh("cuda", (ranks,), mesh_dim_names=("tp",))
    cases, models = [], {}
    if os.path.exists(options.output):
        with open(options.output) as file:
            known = json.load(file)
        cases, models = [c for c in known["cases"] if c["tp"] != ranks], known["models"]
    for model in MODELS:
        models[model] = config_of(model)
        if models[model]["num_key_value_heads"] % ranks:
            continue
        for recipe in RECIPES:
            for batch, seq in SIZES:
                saved = measure(model, batch, seq, recipe, mesh, options.joint)
                case = {"model": model, "batch": batch, "seq": seq, "tp": ranks}
                cases.append(case | ({"fp8": recipe} if recipe else {}) | {"saved": saved})
                print(case, recipe, {b: len(s) for b, s in saved.items()}, flush=True)
    compile_saved.write(options.output, models, cases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
