"""The run: phases in the order of their worth, within one deadline. bench/gpu/README.md says how it is called.

    bench/gpu/run.sh --out DIR [--again DIR] [--seconds S] [--emulated] [--only TEXT …] [--phases NAME …] [--workers N]
"""

import argparse
import json
import os
import pathlib
import subprocess
import threading
import time

from . import calibration, memory, probe, rows, tests, times, traces, trainer
from .cases import NOISE, timed_cases
from .commands import Context, kill
from .machine import gpu_here

# Seconds since the beginning at which each ends, of a whole run and of one that mends an earlier one.
WHOLE = {"memory": 190, "times": 310, "trainer": 385, "traces": 445, "calibration": 495, "kernels": 520}
AGAIN = {"times": 45, "trainer": 70, "traces": 90, "calibration": 100, "kernels": 105, "memory": 140}
DEADLINE, DEADLINE_AGAIN = 555, 150
FILES = ("env.json", "peaks.jsonl", "times.jsonl", "tests.txt", "trainer.jsonl", "traces.tar", "device.json", "log.txt")


def arguments():
    parser = argparse.ArgumentParser(prog="bench/gpu/run.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a folder; what is there is added to")
    parser.add_argument("--again", type=pathlib.Path, help="results of an earlier run: what failed there, then what it had not reached")
    parser.add_argument("--seconds", type=float, help="the run's own deadline (555; 150 with --again)")
    parser.add_argument("--emulated", action="store_true", help="try the script here, on the emulated device")
    parser.add_argument("--only", action="append", help="cases of memory and times whose label has this text")
    parser.add_argument("--phases", nargs="+", choices=list(WHOLE), help="these alone")
    parser.add_argument("--workers", type=int, default=8, help="processes of the memory phase")
    parser.add_argument("--programs", type=pathlib.Path, help="their folder (bench/gpu/packed/bin; build/release with --emulated)")
    return parser.parse_args()


def scaled(ends, deadline, usual):
    return {name: end * deadline / usual for name, end in ends.items()}


def earlier(folder):
    """Labels that an earlier run has figures of."""
    if folder is None:
        return set()
    return {row["label"] for name in ("peaks", "times", "trainer") for row in rows.latest(rows.read(folder / f"{name}.jsonl")).values()
            if "failed" not in row}


def main():
    start = time.monotonic() - float(os.environ.get("GPU_DAY_BEGAN", "0"))
    a = arguments()
    usual = DEADLINE_AGAIN if a.again else DEADLINE
    deadline = a.seconds or usual
    ends = scaled(AGAIN if a.again else WHOLE, deadline, usual)
    a.out.mkdir(parents=True, exist_ok=True)
    gpu, total = ("h100-80gb", 85899345920) if a.emulated else gpu_here()
    context = Context(a.out.resolve(), deadline, gpu, a.emulated, start, a.programs)
    done = earlier(a.again)
    # Some times are taken twice, so that their noise is known.
    again = {case["label"] for case in list(timed_cases())[:NOISE]} if a.again else set()
    environment = {"gpu": gpu, "emulated": a.emulated, "arguments": {k: str(v) for k, v in vars(a).items()}, "phases": {}}
    probe.run(context, environment)
    phases = {
        "memory": lambda until: memory.run(context, until, total, a.workers, a.only, done),
        "times": lambda until: times.run(context, until, a.only, done - again),
        "trainer": lambda until: trainer.run(context, until, done),
        "traces": lambda until: traces.run(context, until, done),
        "calibration": lambda until: calibration.run(context, until, quick=True),
        "kernels": lambda until: trainer.run_kernels(context, until),
    }
    beside = None
    for name, end in ends.items():
        if a.phases and name not in a.phases:
            continue
        if name == "memory" and not a.emulated and not a.again:
            beside = threading.Thread(target=tests.run, args=(context, end), daemon=True)
            beside.start()
        began = context.seconds()
        context.log(f"{name}: until {end:.0f} s")
        try:
            phases[name](end)
        except Exception as error:  # noqa: BLE001  the next phase may do
            context.log(f"{name}: {type(error).__name__}: {error}")
        if name == "memory" and beside is not None:
            beside.join(max(0.0, context.left(end)))
        environment["phases"][name] = [round(began, 1), round(context.seconds(), 1)]
        (context.out / "env.json").write_text(json.dumps(environment, indent=1) + "\n")
    if context.building is not None:
        kill(context.building)
    extra = sorted(set(os.listdir(context.out)) - set(FILES))
    context.log(f"done; {len(os.listdir(context.out))} files" + (f", among them unexpected {extra}" if extra else ""))
    os._exit(0)  # threads may hang on a device that does not answer


main()
