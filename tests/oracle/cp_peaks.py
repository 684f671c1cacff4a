"""Peaks and launches of context-parallel steps on the emulated device, as emulated_peaks.py has them.

    ac-advisor dryrun --world N --rank R --output /dev/null -- python cp_peaks.py OUTPUT.json [--only LABEL] [--again]

Runs the cases of cp_cases.py that have this world and this rank; `cp_cases.py` prints which there are.
"""

import gc
import os
import sys

import torch

import cp_step
import emulated_peaks
import optimizer_peaks  # noqa: F401: its optimizers clip
import tp_step
from cp_cases import all_cases, rank_of

DEFAULTS = {"cp_method": "allgather", "fsdp_unit": "block", "attn": "auto", "loss_parallel": False}


def steps(entry, marks, _):
    step, mesh = cp_step.build(entry, lambda: marks.enter("loss"))
    ring = mesh["cp"]
    optimizer = emulated_peaks.make_optimizer(entry, step)
    vocabulary = step.m.config.get_text_config().vocab_size
    mine = entry["batch"], entry["seq"] // entry["cp"]
    ids, labels = (torch.randint(vocabulary, mine).cuda() for _ in range(2))
    # labels are shifted before they are split: the token after a chunk is another rank's
    step.more |= {"position_ids": cp_step.positions(entry, ring.get_local_rank()), "shift_labels": labels}
    gc.collect()
    torch.cuda.empty_cache()  # what was needed to set up
    kept, found = [], []
    with cp_step.attention(ring, entry["cp_method"]), tp_step.losses(entry):
        for _ in range(2):
            marks.figures = {}
            emulated_peaks.run_step(entry, step, ids, labels, optimizer, marks.enter, kept)
            marks.enter(None)
            found.append(marks.figures)
    cp_step.with_masks(step.m)
    return found


def measure(entry):
    if entry.get("tp", 1) > 1:
        entry = {"loss_parallel": True} | entry
    return emulated_peaks.measure(DEFAULTS | entry, steps=steps)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(all_cases()), measure, __doc__,
                                 lambda entry: rank_of(entry) == int(os.environ["RANK"])))
