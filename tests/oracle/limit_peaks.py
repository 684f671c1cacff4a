"""Writes limit_peaks.json: steps on an emulated device that has less memory than PyTorch's allocator would reserve.

    until ac-advisor dryrun [--world N] --output /dev/null -- python limit_peaks.py limit_peaks.json; do [ $? = 3 ] || break; done

It ends with 3 where a step that was out of memory has left tensors behind: the next process goes on.

A case is one of wide_peaks.json, emulated_peaks.json or drawn_peaks.json; it runs with what a ballast leaves of the
device, taken by cudaMalloc beside PyTorch: of what it reserved there above what it allocated five sixths, a half, a
sixth, and 64 MiB less than what it allocated (of most cases two of these four). Of each limit it has `retries` of each
step (torch.cuda.memory_stats, num_alloc_retries) and the step that was out of memory, if one was.
"""

import argparse
import ctypes
import json
import os
import random
import sys

import torch

import emulated_peaks
import wide_peaks
from emulated_cases import label

GRANULE = 2 << 20
STEPS = 4
SHARES = (5 / 6, 1 / 2, 1 / 6, None)  # of what is reserved above what is allocated; None: below that
library = ctypes.CDLL(None)


def cases():
    """Of each layout and allocator setting some, seeded, by label: the case, its peaks, and where its limits lie."""
    found = {}
    for case in drawn(0.06, 2 << 30, 2, random.Random(48)):
        found[label(case["case"])] = case["case"], case["peak_allocated"], case["peak_reserved"], SHARES
    draw = random.Random(480)
    for case in drawn(0.02, 1 << 30, 4, draw):
        entry, shares = case["case"], draw.sample(SHARES, 2)
        found.setdefault(label(entry), (entry, case["peak_allocated"], case["peak_reserved"], shares))
    return found


def drawn(gap, least, count, draw):
    """Cases that reserve `least` bytes or more, and of those a share `gap` above what they allocate."""
    here = os.path.dirname(os.path.abspath(__file__))
    groups = {}
    for file in ("wide_peaks.json", "emulated_peaks.json", "drawn_peaks.json"):
        with open(os.path.join(here, file)) as stream:
            known = json.load(stream)["cases"]
        for entry in known:
            case = entry["case"]
            above = entry["peak_reserved"] - entry["peak_allocated"]
            if above < gap * entry["peak_reserved"] or entry["peak_reserved"] < least or case.get("images"):
                continue
            key = (case.get("shard", "none"), case.get("alloc_conf", ""), case.get("world", 1))
            groups.setdefault(key, []).append(entry)
    samples = [draw.sample(groups[key], min(count, len(groups[key]))) for key in sorted(groups)]
    for number in range(count):
        yield from (sample[number] for sample in samples if number < len(sample))


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
    """Retries of each step, and the number of the one that was out of memory. Those of the set-up are none of them."""
    counted, before = [], []

    class Marks(emulated_peaks.Marks):
        def enter(self, phase):
            super().enter(phase)
            if not before:
                before.append(retries())
            if phase is None:
                counted.append(retries() - before.pop())
                before.append(retries())

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


def within(entry, left):
    """What becomes of it where the device has so many bytes left."""
    ballast = Ballast(left)
    try:
        counted, out = run(entry)
    finally:
        ballast.drop()
    sys.last_value = sys.last_traceback = None
    return {"limit": ballast.left, "retries": counted, "out_of_memory": out}


def bytes_left(case):
    """Of the device, at each of its limits."""
    _, allocated, reserved, shares = case
    return [int(allocated - (64 << 20) if s is None else allocated + s * (reserved - allocated)) for s in shares]


def main(cases, about=__doc__):
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--only", default="", help="cases whose label has this text")
    parser.add_argument("--again", action="store_true",
                        help="those that the file has, each marked so when it is done: take the marks away at the end")
    options = parser.parse_args()
    measure = emulated_peaks.measure
    wide_peaks.emulated_peaks.measure = lambda entry, build=emulated_peaks.build: measure(entry, build, steps)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        emulated_peaks.start_ranks()
    done = {}
    if os.path.exists(options.output):
        with open(options.output) as file:
            done = {label(c["case"]): c for c in json.load(file)["cases"]}
    torch.ones((), device="cuda")

    def measured(entry, left):
        try:
            emulated_peaks.nothing_left()
        except AssertionError:  # a step that was out of memory left tensors behind
            os._exit(3)
        found = within(entry, left)
        print(label(entry), found, flush=True)
        return found

    def write():
        kept = [c for c in done.values() if c["limits"]]
        emulated_peaks.write(options.output, kept, [c["case"] for c in kept], "h100-80gb")

    def is_meant(name, entry):
        return entry.get("world", 1) == world and options.only in name

    if options.again:
        for name, found in done.items():
            for limit in found["limits"] if is_meant(name, found["case"]) else ():
                if not limit.get("again"):
                    limit |= measured(found["case"], limit["limit"]) | {"again": True}
                    write()
        return 0
    for name, (entry, allocated, reserved, _) in cases.items():
        if not is_meant(name, entry):
            continue
        found = done.setdefault(name, {"case": entry, "peak_allocated": allocated, "peak_reserved": reserved,
                                       "limits": []})
        for left in bytes_left(cases[name])[len(found["limits"]):]:
            found["limits"].append(measured(entry, left))
            write()
    return 0


if __name__ == "__main__":
    sys.exit(main(cases()))
