#!/usr/bin/env python3
"""Predicted step times of a calibrated device beside measured ones.

Calibrates this machine (or takes --device FILE), measures one model under every combination of
checkpointing mode, loss and kernels, and prints the error of each prediction and the two rankings.

    bench/calibrated_prediction.py build/release/ac-advisor --model llama-60m --seq 128 --batch 2
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


def measure(arguments, options):
    """Milliseconds of each of several runs: their least is the time, their spread the noise."""
    times = []
    for _ in range(arguments.repeats):
        text = run(arguments.program, "measure", arguments.model, *options, "--no-parity",
                   "--steps", str(arguments.steps), "--format", "json")
        times.append(1e3 * json.loads(text)["time"]["step_seconds"])
    return times


def predict(arguments, options, device):
    text = run(arguments.program, "plan", arguments.model, *options, "--gpu", device,
               "--format", "json")
    return 1e3 * json.loads(text)["time"]["step_seconds"]


def ranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    return [order.index(i) + 1 for i in range(len(values))]


def spearman(a, b):
    n = len(a)
    if n < 2:
        return 1.0
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(ranks(a), ranks(b))) / (n * (n * n - 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--model", default="llama-60m")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--ac", nargs="*", default=["none", "full", "selective", "grouped:2"])
    parser.add_argument("--loss", nargs="*", default=["ce", "lc-ce"])
    parser.add_argument("--kernels", nargs="*", default=["eager", "fused"])
    parser.add_argument("--device", help="a device file; default: calibrate now")
    parser.add_argument("--quick", action="store_true", help="calibrate --quick")
    arguments = parser.parse_args()

    load = os.getloadavg()[0]
    device = arguments.device
    if device is None:
        device = os.path.join(tempfile.mkdtemp(), "calibrated.json")
        run(arguments.program, "calibrate", "--threads", str(arguments.threads), "--output", device,
            *(["--quick"] if arguments.quick else []))
    rows = []
    for ac, loss, kernels in itertools.product(arguments.ac, arguments.loss, arguments.kernels):
        options = ["--batch", str(arguments.batch), "--seq", str(arguments.seq), "--threads",
                   str(arguments.threads), "--param-dtype", "fp32", "--compute-dtype", "fp32",
                   "--ac", ac, "--loss", loss, "--kernels", kernels]
        times = measure(arguments, options)
        rows.append((f"{ac} {loss} {kernels}", predict(arguments, options, device), times))

    predicted = [row[1] for row in rows]
    measured = [min(row[2]) for row in rows]
    noise = [max(row[2]) - min(row[2]) for row in rows]
    errors = [p / m - 1 for p, m in zip(predicted, measured)]
    a, b = ranks(predicted), ranks(measured)
    print(f"{arguments.model}, batch {arguments.batch}, seq {arguments.seq}, "
          f"{arguments.threads} threads; load {load:.1f} before, {os.getloadavg()[0]:.1f} after")
    print(f"{'configuration':28} {'pred ms':>9} {'meas ms':>9} {'spread':>8} {'error':>8} ranks")
    for i, row in enumerate(rows):
        print(f"{row[0]:28} {predicted[i]:9.2f} {measured[i]:9.2f} {noise[i]:8.2f} "
              f"{errors[i]:+8.1%} {a[i]:3} {b[i]:3}")
    sizes = [abs(e) for e in errors]
    print(f"error: worst {max(sizes):.1%}, median {statistics.median(sizes):.1%}; "
          f"rank correlation {spearman(predicted, measured):.3f}")
    swapped = [(i, j) for i, j in itertools.combinations(range(len(rows)), 2)
               if (predicted[i] - predicted[j]) * (measured[i] - measured[j]) < 0]
    for i, j in swapped:
        gap, spread = abs(measured[i] - measured[j]), max(noise[i], noise[j])
        print(f"swapped: {rows[i][0]} / {rows[j][0]}: measured {gap:.2f} ms apart, "
              f"{'more than' if gap > spread else 'within'} the runs' spread of {spread:.2f} ms")
    if not swapped:
        print("no pair is swapped")


if __name__ == "__main__":
    main()
