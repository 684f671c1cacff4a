"""Allocated and reserved peaks and launches of real steps of model types that have no family, on the emulated device.

    ac-advisor dryrun --output /dev/null -- python captured_peaks.py captured_peaks.json [--only LABEL] [--again]
    ac-advisor dryrun --output /dev/null -- python captured_peaks.py drawn_captured_peaks.json --drawn

The model is what transformers makes of the case's configuration; the step is graph_peaks.py's. The file has the
configurations, of which `ac-advisor plan` makes its own captures (tests/oracle/off_test.cpp).
"""

import argparse
import json
import os
import sys
import tempfile
import time

import torch
import transformers

import graph_peaks
from captured_cases import all_cases, config_of, drawn_cases, small
from emulated_cases import label
from emulated_peaks import nothing_left
from ac_advisor.capture.configuration import Configured


def measure(case, config):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        figures = graph_peaks.measure(case, Configured(file.name, case.get("param_dtype", "bf16"), "autocast" in case))
    del figures["allocated"]["loss"]  # the model's forward makes it
    return figures


def write(path, wanted, made, done):
    cases = [done[label(case)] for case in wanted if label(case) in done]
    models = {name: made(name) for name in dict.fromkeys(one["case"]["model"] for one in cases)}
    source = f"PyTorch {torch.__version__}, transformers {transformers.__version__}, emulated h100-80gb"
    with open(path + ".part", "w") as file:
        file.write('{"source": ' + json.dumps(source) + ', "captured": true, "models": {\n')
        file.write(",\n".join(f"{json.dumps(name)}: {json.dumps(config)}" for name, config in models.items()))
        file.write('\n}, "cases": [\n' + ",\n".join(json.dumps(one) for one in cases) + "\n]}\n")
    os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--only", default="", help="cases whose label has this text")
    parser.add_argument("--again", action="store_true", help="those that the file has, too")
    parser.add_argument("--drawn", action="store_true", help="the steps that were drawn")
    options = parser.parse_args()
    wanted, made = (list(drawn_cases()), small) if options.drawn else (list(all_cases()), config_of)
    torch.ones((), device="cuda")
    done, failed = {}, 0
    if os.path.exists(options.output):
        with open(options.output) as file:
            done = {label(one["case"]): one for one in json.load(file)["cases"]}
    for case in wanted:
        name = label(case)
        if options.only not in name or (name in done and not options.again):
            continue
        start = time.time()
        try:
            nothing_left()
            done[name] = {"case": case} | measure(case, made(case["model"]))
        except Exception as error:  # of this case alone: the others go on
            print(f"{name}  FAILED: {type(error).__name__}: {error}", flush=True)
            failed += 1
            continue
        print(f"{name}  {done[name]['peak_allocated']} {done[name]['peak_reserved']}  {time.time() - start:.1f} s",
              flush=True)
        write(options.output, wanted, made, done)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
