"""Runs the steps that graded_cases.py drew, as blind_finetune_peaks.py does, and says how far off each plan was.

    ac-advisor dryrun [--world 2] --output /dev/null -- python graded_peaks.py graded_peaks.json
    python graded_peaks.py --errors graded_peaks.json    # writes them into ../evidence/draws.json

A step that PyTorch or a library ends with an error is told, with the error, and is none of the file's.
"""

import json
import os
import sys

DRAWS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../evidence/draws.json")


def draws():
    with open(DRAWS) as file:
        return json.load(file)["draws"]


def errors(peaks):
    """Of peak allocated memory, reserved and launches, in percent of what PyTorch counted."""
    from graded_cases import write

    with open(peaks) as file:
        counted = {json.dumps(one["case"], sort_keys=True): one for one in json.load(file)["cases"]}
    every = draws()
    for one in every:
        real = counted.get(json.dumps(one["case"], sort_keys=True))
        if real is None or "error_percent" in one:
            continue
        launches = sum(sum(phase.values()) if isinstance(phase, dict) else sum(phase) for phase in real["launches"].values())
        of = {"allocated": real["peak_allocated"], "reserved": real["peak_reserved"], "launches": launches}
        off = {name: round(100 * (one["planned"][name] / of[name] - 1), 4) for name in of if of[name]}
        one["error_percent"] = off.pop("allocated")
        one["other_errors_percent"] = off
    write(DRAWS, every)


def main():
    if sys.argv[1] == "--errors":
        return errors(sys.argv[2])
    import emulated_peaks
    from blind_finetune_peaks import measure
    from emulated_cases import label

    def ran(entry):
        try:
            return measure(entry)
        except Exception as error:  # noqa: BLE001  whatever a library raises is what it says of the step
            print(f"{label(entry)}  DOES NOT RUN: {type(error).__name__}: {str(error)[:200]}", flush=True)
            raise emulated_peaks.torch.OutOfMemoryError from error

    return emulated_peaks.main([one["case"] for one in draws()], ran, __doc__)


if __name__ == "__main__":
    sys.exit(main())
