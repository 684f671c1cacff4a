#!/usr/bin/env python3
"""Predicted step times of a calibrated device beside measured ones.

Calibrates this machine (or takes --device FILE), measures a model under every combination of
checkpointing mode, loss and kernels, and prints the error of each prediction and where the two
rankings differ. The combinations take turns, round after round, so that what drifts on the machine
hits all alike; a combination's time is its fastest round, its noise how far the second fastest lies.

    taskset -c 0 bench/calibrated_prediction.py build/release/ac-advisor --model llama-60m
"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile


def run(program, *words):
    done = subprocess.run([program, *words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def step_ms(text):
    return 1e3 * json.loads(text)["time"]["step_seconds"]


class Combination:
    """One configuration, what was predicted of it and what each round measured, in milliseconds."""

    def __init__(self, arguments, ac, loss, kernels):
        self.group = f"{loss} {kernels}"  # modes are ranked in it
        self.name = f"{ac} {self.group}"
        self.options = ["--batch", str(arguments.batch), "--seq", str(arguments.seq), "--threads",
                        str(arguments.threads), "--param-dtype", "fp32", "--compute-dtype", "fp32",
                        "--ac", ac, "--loss", loss, "--kernels", kernels]
        self.predicted = 0.0
        self.rounds = []

    def predict(self, arguments, device):
        self.predicted = step_ms(run(arguments.program, "plan", arguments.model, *self.options,
                                     "--gpu", device, "--format", "json"))

    def measure(self, arguments):
        self.rounds.append(step_ms(run(
            arguments.program, "measure", arguments.model, *self.options, "--no-parity", "--steps",
            str(arguments.steps), "--format", "json")))

    @property
    def measured(self):
        return min(self.rounds)

    @property
    def noise(self):
        return sorted(self.rounds)[1] - self.measured if len(self.rounds) > 1 else 0.0

    @property
    def error(self):
        return self.predicted / self.measured - 1


def ranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    return [order.index(i) + 1 for i in range(len(values))]


def spearman(a, b):
    n = len(a)
    if n < 2:
        return 1.0
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(ranks(a), ranks(b))) / (n * (n * n - 1))


def print_swapped(title, pairs):
    swapped = [(a, b) for a, b in pairs
               if (a.predicted - b.predicted) * (a.measured - b.measured) < 0]
    told_apart = 0
    for a, b in swapped:
        gap, noise = abs(a.measured - b.measured), max(a.noise, b.noise)
        if gap <= noise:
            continue
        told_apart += 1
        print(f"swapped: {a.name} / {b.name}: measured {gap:.2f} ms ({gap / a.measured:.1%}) apart, "
              f"noise {noise:.2f} ms")
    print(f"{title}: {told_apart} of {len(pairs)} pairs swapped, and {len(swapped) - told_apart} "
          "that lie within the noise of each other")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--model", default="llama-60m")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--ac", nargs="*",
                        default=["none", "full", "selective", "attention", "grouped:2", "sqrt"])
    parser.add_argument("--loss", nargs="*", default=["ce", "lc-ce"])
    parser.add_argument("--kernels", nargs="*", default=["eager", "fused"])
    parser.add_argument("--device", help="a device file; default: calibrate now")
    parser.add_argument("--quick", action="store_true", help="calibrate --quick")
    arguments = parser.parse_args()

    loads = [os.getloadavg()[0]]
    device = arguments.device
    if device is None:
        device = os.path.join(tempfile.mkdtemp(), "calibrated.json")
        run(arguments.program, "calibrate", "--threads", str(arguments.threads), "--output", device,
            *(["--quick"] if arguments.quick else []))
    rows = [Combination(arguments, ac, loss, kernels) for loss, kernels, ac in
            itertools.product(arguments.loss, arguments.kernels, arguments.ac)]
    for _ in range(arguments.rounds):
        for row in rows:
            row.measure(arguments)
        loads.append(os.getloadavg()[0])
    for row in rows:
        row.predict(arguments, device)

    a, b = ranks([row.predicted for row in rows]), ranks([row.measured for row in rows])
    print(f"{arguments.model}, batch {arguments.batch}, seq {arguments.seq}, "
          f"{arguments.threads} threads, {arguments.rounds} rounds of {arguments.steps} steps; load "
          + ", ".join(f"{load:.1f}" for load in loads))
    print(f"{'configuration':24} {'pred ms':>9} {'meas ms':>9} {'noise':>7} {'slowest':>9} "
          f"{'error':>7} ranks")
    for i, row in enumerate(rows):
        print(f"{row.name:24} {row.predicted:9.2f} {row.measured:9.2f} {row.noise:7.2f} "
              f"{max(row.rounds):9.2f} {row.error:+7.1%} {a[i]:3} {b[i]:3}")
    errors = [abs(row.error) for row in rows]
    print(f"error: worst {max(errors):.1%}, median {statistics.median(errors):.1%}; rank "
          f"correlation {spearman([row.predicted for row in rows], [row.measured for row in rows]):.3f}")
    pairs = list(itertools.combinations(rows, 2))
    print_swapped("modes of one loss and kernels", [(p, q) for p, q in pairs if p.group == q.group])
    print_swapped("all", pairs)


if __name__ == "__main__":
    main()
