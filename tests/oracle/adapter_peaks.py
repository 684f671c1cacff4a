"""Writes adapter_peaks.json: peaks of PEFT's and bitsandbytes' steps on the emulated device.

    ac-advisor dryrun --gpu h100-80gb -- python adapter_peaks.py OUTPUT.json [--only WORD] [--list]

Each case has a whole config.json and the planner's own options, by their names in the JSON of a
configuration (docs/schema/config-1.json); what stands nowhere is the option's default. A step is
what adapter_step.py runs; the figures are of the second one. `workspace` is what cuBLAS holds.
"""

import argparse
import gc
import json
import sys

import bitsandbytes
import peft
import torch
import transformers

from adapter_cases import cases
from adapter_step import Step

def measure(config, options):
    free()
    left = torch.cuda.memory_allocated()
    assert left == 0, f"the case before left {left} bytes behind"
    step = Step(config, options)
    trainable, total = step.net.get_nb_trainable_parameters()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    step.run()
    phases = step.run(measured=True)
    before = torch.cuda.memory_allocated()
    torch._C._cuda_clearCublasWorkspaces()
    workspace = before - torch.cuda.memory_allocated()
    return {
        "allocated": max(phases.values()), "reserved": step.reserved, "workspace": workspace, **phases,
        "parameters": total, "trainable": trainable,
    }


def free():
    bitsandbytes.functional.name2qmap.clear()  # a code book that is made once
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    written = []
    for label, config, options in cases():
        if args.only not in label:
            continue
        if args.list:
            print(label)
            continue
        figures = measure(config, options)
        print(label, figures["allocated"], figures["reserved"], file=sys.stderr, flush=True)
        written.append({"label": label, "config": config, "options": options, **figures})
        write(args.output, written)


def write(path, cases):
    source = (f"PyTorch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}, "
              f"bitsandbytes {bitsandbytes.__version__}, emulated h100-80gb")
    with open(path, "w") as file:
        file.write('{"source": ' + json.dumps(source) + ', "cases": [\n')
        file.write(",\n".join(json.dumps(case) for case in cases))
        file.write("\n]}\n")


if __name__ == "__main__":
    main()
