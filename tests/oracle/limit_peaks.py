"""Writes limit_peaks.json: steps on an emulated device that has less memory than PyTorch's allocator would reserve.

    ac-advisor dryrun [--world N] --output /dev/null -- python limit_peaks.py limit_peaks.json

A case is one of wide_cases.py or emulated_cases.py; it runs once with all of the device, and then with what a
ballast leaves of it, taken by cudaMalloc beside PyTorch: of what it reserved above what it allocated five sixths,
a half, a sixth, and 64 MiB less than what it allocated. Of each limit it has `retries` of each step
(torch.cuda.memory_stats, num_alloc_retries) and the step that was out of memory, if one was.
"""

import argparse
import ctypes
import gc
import json
import os
import random
import sys

import torch
import torch.distributed as dist

import emulated_peaks
import wide_peaks
from emulated_cases import config_of, label
from wide_cases import wide_cases

GRANULE = 2 << 20
STEPS = 4
SHARES = (5 / 6, 1 / 2, 1 / 6)
library = ctypes.CDLL(None)


def cases():
    """Of each layout and allocator setting some, seeded: those with room between allocated and reserved."""
    here = os.path.dirname(os.path.abspath(__file__))
    groups = {}
    for file in ("wide_peaks.json", "emulated_peaks.json", "drawn_peaks.json"):
        with open(os.path.join(here, file)) as stream:
            known = json.load(stream)["cases"]
        for entry in known:
            case = entry["case"]
            gap = entry["peak_reserved"] - entry["peak_allocated"]
            if gap < 0.06 * entry["peak_reserved"] or entry["peak_reserved"] < 2 << 30 or case.get("images"):
                continue
            key = (case.get("shard", "none"), case.get("alloc_conf", ""), case.get("world", 1))
            groups.setdefault(key, []).append(case)
    draw = random.Random(48)
    for key in sorted(groups):
        yield from draw.sample(groups[key], min(2, len(groups[key])))


class Ballast:
    """Device memory that is not PyTorch's, so that `left` bytes are."""

    def __init__(self, left):
        free = torch.cuda.mem_get_info()[0]
        self.pointer = ctypes.c_void_p()
        taken = (free - left) // GRANULE * GRANULE
        assert library.cudaMalloc(ctypes.byref(self.pointer), ctypes.c_size_t(taken)) == 0
        self.left = torch.cuda.mem_get_info()[0]

    def drop(self):
        assert library.cudaFree(self.pointer) == 0


def retries():
    return torch.cuda.memory_stats().get("num_alloc_retries", 0)


def run(entry):
    """Retries of each step, and the number of the one that was out of memory."""
    counted, before = [], [retries()]

    class Marks(emulated_peaks.Marks):
        def enter(self, phase):
            super().enter(phase)
            if phase is None:
                counted.append(retries() - before[0])
                before[0] = retries()

    original = emulated_peaks.Marks
    emulated_peaks.Marks = Marks
    try:
        wide_peaks.measure(entry | {"steps": STEPS})
        return counted, None
    except torch.OutOfMemoryError:
        return counted, len(counted)
    finally:
        emulated_peaks.Marks = original


def steps(entry, marks, build):
    return PLAIN_STEPS(entry, marks, build, count=STEPS if entry.get("steps") else None)


PLAIN_STEPS = emulated_peaks.steps


def figures(entry):
    whole = wide_peaks.measure(entry)
    allocated, reserved = whole["peak_allocated"], whole["peak_reserved"]
    found = {"peak_allocated": allocated, "peak_reserved": reserved, "limits": []}
    wanted = [allocated + share * (reserved - allocated) for share in SHARES] + [allocated - (64 << 20)]
    for left in wanted:
        emulated_peaks.nothing_left()
        ballast = Ballast(int(left))
        try:
            counted, out = run(entry)
        finally:
            gc.collect()
        sys.last_value = sys.last_traceback = None
        gc.collect()
        emulated_peaks.nothing_left()
        found["limits"].append({"limit": ballast.left, "retries": counted, "out_of_memory": out})
        ballast.drop()
    return found


if __name__ == "__main__":
    measure = emulated_peaks.measure
    wide_peaks.emulated_peaks.measure = lambda entry, build=emulated_peaks.build: measure(entry, build, steps)
    sys.exit(emulated_peaks.main(list(cases()), figures, __doc__))
