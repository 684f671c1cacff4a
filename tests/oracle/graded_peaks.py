"""Runs the steps that graded_cases.py drew, as blind_finetune_peaks.py does, and says how far off each plan was.

    ac-advisor dryrun [--world 2] --output /dev/null -- python graded_peaks.py graded_peaks.json
    python graded_peaks.py --errors graded_peaks.json    # writes them into ../evidence/draws.json

A step that PyTorch or a library ends with an error stands in OUTPUT.ended_with_an_error, and is none of the file's. The
program then ends with 3: start it again, and it goes on with the next.
"""

import json
import os
import sys

AGAIN = 3
DRAWS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../evidence/draws.json")


def draws():
    with open(DRAWS) as file:
        return json.load(file)["draws"]


def errors(peaks):
    """Of peak allocated memory, reserved and launches, in percent of what PyTorch counted."""
    from graded_cases import can_run, write

    with open(peaks) as file:
        counted = {json.dumps(one["case"], sort_keys=True): one for one in json.load(file)["cases"]}
    every = draws()
    for one in every:
        real = counted.get(json.dumps(one["case"], sort_keys=True))
        if real is None or "error_percent" in one or not can_run(one["case"]):
            continue
        launches = sum(sum(phase.values()) if isinstance(phase, dict) else sum(phase) for phase in real["launches"].values())
        of = {"allocated": real["peak_allocated"], "reserved": real["peak_reserved"], "launches": launches}
        off = {name: round(100 * (one["planned"][name] / of[name] - 1), 4) for name in of if of[name]}
        one["error_percent"] = off.pop("allocated")
        one["other_errors_percent"] = off
    write(DRAWS, every)


def ended(output):
    """Labels of the steps that a library ended with an error."""
    left_out = output + ".ended_with_an_error"
    if not os.path.exists(left_out):
        return set()
    with open(left_out) as file:
        return {line.split("  ")[0] for line in file}


def run(output, entries, measure, about, mine=lambda entry: True):
    """As emulated_peaks.main, ending with AGAIN after a step that a library ends with an error."""
    import emulated_peaks
    from accelerate import PartialState
    from emulated_cases import label

    nothing_left = emulated_peaks.nothing_left

    def nothing_left_or_again():
        try:
            nothing_left()
        except AssertionError as error:
            raise SystemExit(AGAIN) from error

    emulated_peaks.nothing_left = nothing_left_or_again

    def ran(entry):
        PartialState()  # some of PEFT's messages ask for it
        try:
            return measure(entry)
        except Exception as error:  # noqa: BLE001  whatever a library raises is what it says of the step
            said = str(error).splitlines() or [""]
            with open(output + ".ended_with_an_error", "a") as file:
                print(f"{label(entry)}  {type(error).__name__}: {said[0][:200]}", file=file)
            raise SystemExit(AGAIN) from error  # what it has left behind would be in the next step's figures

    return emulated_peaks.main(entries, ran, about, mine)


def main():
    if sys.argv[1] == "--errors":
        return errors(sys.argv[2])
    import packed_flash  # noqa: F401  before transformers
    from blind_finetune_peaks import measure
    from emulated_cases import label
    from graded_cases import can_run

    output, have = sys.argv[1], set()
    if os.path.exists(output):
        with open(output) as file:
            have = {label(one["case"]) for one in json.load(file)["cases"]}
    done = ended(output)

    def wanted(one):
        """Those that the file has stay; what had an error and is none of the file's is refused by now."""
        name = label(one["case"])
        return name in have or name not in done and "error_percent" not in one and can_run(one["case"])

    return run(output, [one["case"] for one in draws() if wanted(one)], measure, __doc__)


if __name__ == "__main__":
    sys.exit(main())
