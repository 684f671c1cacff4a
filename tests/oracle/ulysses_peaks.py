"""Peaks and launches of steps under DeepSpeed's Ulysses on the emulated device, as cp_peaks.py has those of rings.

    ac-advisor dryrun --world N --output /dev/null -- python ulysses_peaks.py OUTPUT.json [--only LABEL] [--again]

Runs the cases of ulysses_cases.py that have this world. Ranks that share a sequence hold alike: rank 0's is measured.
"""

import gc
import sys

import torch

import emulated_peaks
import ulysses_step
from ulysses_cases import all_cases

DEFAULTS = {"fsdp_unit": "block", "attn": "auto"}


def steps(entry, marks, _):
    step = ulysses_step.build(entry, lambda: marks.enter("loss"))
    optimizer = emulated_peaks.make_optimizer(entry, step)
    vocabulary = step.m.config.get_text_config().vocab_size
    mine = entry["batch"], entry["seq"] // entry["cp"]
    ids, labels = (torch.randint(vocabulary, mine).cuda() for _ in range(2))
    with ulysses_step.attention(step.m, entry):
        # the adapter shifts labels before it splits them
        step.more |= {"position_ids": ulysses_step.positions(entry, 0), "shift_labels": labels}
        weighted = ulysses_step.Weighted(step, labels)
        gc.collect()
        torch.cuda.empty_cache()  # what was needed to set up
        kept, found = [], []
        for _ in range(2):
            marks.figures = {}
            emulated_peaks.run_step(entry, weighted, ids, labels, optimizer, marks.enter, kept)
            marks.enter(None)
            found.append(marks.figures)
    return found


def measure(entry):
    return emulated_peaks.measure(DEFAULTS | entry, steps=steps)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(all_cases()), measure, __doc__))
