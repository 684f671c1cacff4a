"""Captures the models of graph_peaks.json, plans its cases and says how far each plan is from PyTorch's figures.

    python graph_plans.py AC_ADVISOR graph_peaks.json [--only LABEL] [--graphs FOLDER]

FOLDER keeps the captures, for a second time.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
OPTIONS = {"ac": "--ac", "shard": "--shard", "world": "--world", "grad_accum": "--grad-accum",
           "optimizer": "--optimizer"}
FLAGS = {"keep_last_block": "--keep-last-block", "no_sync": "--no-sync"}


def label(case):  # emulated_cases.label, without what that imports
    return " ".join(f"{key}={value}" for key, value in case.items())


def options_of(case):
    for key, value in case.items():
        if key in OPTIONS:
            yield from (OPTIONS[key], str(value))
        elif key in FLAGS:
            yield FLAGS[key]
        elif key == "hold_output":
            yield "--hold-output" if value else "--no-hold-output"
        elif key not in ("model", "batch", "seq"):
            sys.exit(f"{label(case)}: no option for {key}")


def run(*command):
    return subprocess.run(command, check=True, cwd=HERE, stdout=subprocess.PIPE, text=True).stdout


def capture(program, case, folder):
    graph = os.path.join(folder, f"{case['model']}.graph.json")
    if not os.path.exists(graph):
        run(program, "import", "--", sys.executable, "-m", "ac_advisor.capture", f"graph_cases:{case['model']}",
            "--batch", str(case["batch"]), "--seq", str(case["seq"]), "--output", graph)
    return graph


def compare(program, one, folder):
    """Shares of PyTorch's figures: allocated, reserved, launches."""
    case = one["case"]
    profile = json.loads(run(program, "plan", capture(program, case, folder), *options_of(case), "--format", "json"))
    memory, launches = profile["memory"], profile["kernels"]["launches"]
    planned = memory["peak_allocated_bytes"], memory["peak_reserved_bytes"], sum(launches.values())
    counted = one["peak_allocated"], one["peak_reserved"], sum(one["launches"].values())
    return [p / c - 1 for p, c in zip(planned, counted)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("peaks")
    parser.add_argument("--only", default="", help="cases whose label has this text")
    parser.add_argument("--graphs", help="folder of captures")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    with open(options.peaks) as file:
        cases = [one for one in json.load(file)["cases"] if options.only in label(one["case"])]
    errors = []
    with tempfile.TemporaryDirectory() as temporary:
        for one in cases:
            errors.append(compare(program, one, os.path.abspath(options.graphs or temporary)))
            print("{:+9.4f} % {:+9.4f} % {:+9.4f} %  ".format(*(100 * e for e in errors[-1])) + label(one["case"]),
                  flush=True)
    for name, of_all in zip(("allocated", "reserved", "launches"), zip(*errors)):
        off = [abs(100 * error) for error in of_all]
        print(f"{name}: {len(off)} cases, median {statistics.median(off):.4f} %, worst {max(off):.4f} %")


if __name__ == "__main__":
    main()
