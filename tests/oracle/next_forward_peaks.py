"""As emulated_peaks.py, of the steps that next_forward_cases.py draws: each by the script that measures its kind, with a
loop that holds its output through the next forward. DeepSpeed's in a process each (--only), as an engine leaves hooks
behind, by the rank that is planned.

    ac-advisor dryrun [--world N] [--rank R] --output /dev/null -- python next_forward_peaks.py next_forward_peaks.json
    ac-advisor dryrun --output /dev/null -- python next_forward_peaks.py --list    # world and rank; label of DeepSpeed's

As graded_peaks.py it ends with 3 after a step that a library ends with an error: start it again.
Needs torchtune 0.6.1's, transformer_engine 2.14.0's and DeepSpeed 0.19.8's files on PYTHONPATH.
"""

import os
import sys

import blind_finetune_peaks
import emulated_peaks
from blind_finetune_peaks import on_deepspeed
from emulated_cases import label
from graded_peaks import ended, run
from next_forward_cases import next_forward_cases


def shared(entry):
    import cp_peaks
    import tp_peaks

    return (cp_peaks if "cp" in entry else tp_peaks).measure(entry)


def in_first_version(entry):
    parallel, make_optimizer = emulated_peaks.parallel, emulated_peaks.make_optimizer
    import fsdp1_peaks  # it puts its own in emulated_peaks' place

    emulated_peaks.parallel, emulated_peaks.make_optimizer = fsdp1_peaks.parallel, fsdp1_peaks.make_optimizer
    try:
        return fsdp1_peaks.measure(entry)
    finally:
        emulated_peaks.parallel, emulated_peaks.make_optimizer = parallel, make_optimizer


def measure(entry):
    if "ep" in entry:
        import ep_peaks

        return ep_peaks.measure(entry)
    if "cp" in entry or "tp" in entry:
        return shared(entry)
    if entry.get("shard") == "fsdp1":
        return in_first_version(entry)
    return blind_finetune_peaks.measure(entry)


def rank_of(entry):
    return blind_finetune_peaks.rank_of(entry) if on_deepspeed(entry) else entry.get("cp_rank", 0)


def main():
    cases = next_forward_cases()
    if "--list" in sys.argv:
        alike = sorted({(entry.get("world", 1), rank_of(entry)) for entry in cases if not on_deepspeed(entry)})
        for world, rank in alike:
            print(world, rank)
        for entry in filter(on_deepspeed, cases):
            print(entry["world"], rank_of(entry), label(entry))
        return 0
    rank = int(os.environ.get("RANK", "0"))
    own = any(on_deepspeed(entry) and label(entry) in sys.argv for entry in cases)
    done = ended(sys.argv[1])
    return run(sys.argv[1], [entry for entry in cases if label(entry) not in done], measure, __doc__,
               lambda entry: own or not on_deepspeed(entry) and rank_of(entry) == rank)


if __name__ == "__main__":
    sys.exit(main())
