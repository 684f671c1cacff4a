"""Captures the models of graph_peaks.json, plans its cases and says how far each plan is from PyTorch's figures.

    python graph_plans.py AC_ADVISOR graph_peaks.json [--only LABEL] [--graphs FOLDER]

FOLDER keeps the captures, for a second time. Of a case that is `scaled`, the capture is of the model's first size in
graph_cases.py, and the plan is asked for the case's.
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
        elif key in ("batch", "seq"):
            if "scaled" in case:
                yield from ("--" + key, str(value))
        elif key not in ("model", "scaled"):
            sys.exit(f"{label(case)}: no option for {key}")


def run(*command):
    return subprocess.run(command, check=True, cwd=HERE, stdout=subprocess.PIPE, text=True).stdout


def capture(program, case, folder, first):
    """`first`: the batch and the sequence that the model is captured with."""
    scaled = "scaled" in case
    graph = os.path.join(folder, f"{case['model']}{'.scaled' if scaled else ''}.graph.json")
    if not os.path.exists(graph):
        run(program, "import", "--", sys.executable, "-m", "ac_advisor.capture", f"graph_cases:{case['model']}",
            "--batch", str(first[0]), "--seq", str(first[1]), *(["--scale", case["scaled"]] if scaled else []),
            "--output", graph)
    return graph


def compare(program, one, folder, first):
    """Shares of PyTorch's figures: allocated, reserved, launches."""
    case = one["case"]
    graph = capture(program, case, folder, first)
    profile = json.loads(run(program, "plan", graph, *options_of(case), "--format", "json"))
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
        every = json.load(file)["cases"]
    cases = [one for one in every if options.only in label(one["case"])]
    first = {one["case"]["model"]: (one["case"]["batch"], one["case"]["seq"]) for one in every
             if "scaled" not in one["case"]}
    errors = []
    with tempfile.TemporaryDirectory() as temporary:
        for one in cases:
            errors.append(compare(program, one, os.path.abspath(options.graphs or temporary),
                                  first[one["case"]["model"]]))
            print("{:+9.4f} % {:+9.4f} % {:+9.4f} %  ".format(*(100 * e for e in errors[-1])) + label(one["case"]),
                  flush=True)
    for name, of_all in zip(("allocated", "reserved", "launches"), zip(*errors)):
        off = [abs(100 * error) for error in of_all]
        print(f"{name}: {len(off)} cases, median {statistics.median(off):.4f} %, worst {max(off):.4f} %")


if __name__ == "__main__":
    main()
