"""Allocated and reserved peaks and launches of real steps of captured models, on the emulated device.

    ac-advisor dryrun --output /dev/null -- python graph_peaks.py graph_peaks.json [--only LABEL]

The step is emulated_peaks.py's: forward, loss, backward, optimizer; two steps, the second is measured. A
checkpoint is `checkpoint_wrapper(block, preserve_rng_state=False)` around the blocks that the capture finds.
Captures of the same models, which tests/emulator/capture_test.py lays beside: python -m ac_advisor.capture
graph_cases:NAME.
"""

import argparse
import gc
import json
import os
import sys

import torch
import transformers
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
from ac_advisor.capture.blocks import find_blocks  # noqa: E402
from ac_advisor.capture.graph import build  # noqa: E402
from ac_advisor.capture.step import call, loss_of  # noqa: E402
from emulated_cases import label  # noqa: E402
from emulated_peaks import PHASES, LAUNCHES, Marks, highest, nothing_left  # noqa: E402
from graph_cases import all_cases, make_model_of  # noqa: E402


def checkpointed(model, ac):
    every = {"none": 0, "full": 1}.get(ac) if ":" not in ac else int(ac.partition(":")[2])
    paths = [path for path, _ in model.named_modules()]
    for place, number in enumerate(find_blocks(model, None) if every else []):
        if place % every:
            continue
        parent, _, name = paths[number].rpartition(".")
        holder = model.get_submodule(parent)
        holder[int(name)] = checkpoint_wrapper(holder[int(name)], preserve_rng_state=False)


def run_step(case, model, inputs, loss_fn, optimizer, marks, kept):
    optimizer.zero_grad(set_to_none=True)
    for _ in range(case.get("grad_accum", 1)):
        marks.enter("forward")
        kept.clear()
        output = call(model, inputs)
        marks.enter("loss")
        loss = loss_of(output, loss_fn)
        kept += [output, loss] if case.get("hold_output", True) else [loss]
        del output
        marks.enter("backward")
        loss.backward()
        del loss
    marks.enter("optimizer")
    optimizer.step()


def measure(case):
    model, inputs, loss_fn = build(make_model_of(case["model"]), case["batch"], case["seq"], None)
    checkpointed(model, case["ac"])
    kind = {"foreach": True} if case.get("optimizer") == "adamw-foreach" else {"fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), **kind)
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    marks, kept, every = Marks(), [], []
    for _ in range(2):
        marks.figures = {}
        run_step(case, model, inputs, loss_fn, optimizer, marks, kept)
        marks.enter(None)
        every.append(marks.figures)
    last = every[-1]
    return {"peak_allocated": highest(last, "allocated"),
            "peak_reserved": max(highest(step, "reserved") for step in every),
            "first_step_peak": highest(every[0], "allocated"),
            "allocated": {p: last[p]["allocated"] for p in PHASES},
            "launches": {p: sum(last[p][a] for a in LAUNCHES) for p in PHASES}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--only", default="", help="cases whose label has this text")
    options = parser.parse_args()
    torch.ones((), device="cuda")
    done = []
    for case in all_cases():
        if options.only not in label(case):
            continue
        nothing_left()
        done.append({"case": case} | measure(case))
        print(label(case), done[-1]["peak_allocated"], done[-1]["peak_reserved"], flush=True)
    source = f"PyTorch {torch.__version__}, transformers {transformers.__version__}, emulated h100-80gb"
    with open(options.output, "w") as file:
        file.write('{"source": ' + json.dumps(source) + ', "cases": [\n')
        file.write(",\n".join(json.dumps(c) for c in done) + "\n]}\n")


if __name__ == "__main__":
    main()
