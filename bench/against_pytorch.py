"""Times one configuration in PyTorch (fake tensors under a storage tracker, as the reference does it)
and in ac-advisor's own process, and prints the ratio. Needs the Python packages of
tests/oracle/README.md; says so and stops where they are missing.

    python bench/against_pytorch.py build/release/ac-advisor
"""

import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
CASE = {"ac": "full", "loss": "hf", "sharding": "single", "optimizer": "fused", "batch": 8, "seq": 2048}
RUNS = 20


def planner_seconds(program):
    command = [program, "plan", "llama-3.2-1b", "--batch", "8", "--seq", "2048", "--ac", "full", "--format", "json"]
    best = []
    for _ in range(RUNS):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        best.append(time.perf_counter() - start)
    return sorted(best)[RUNS // 2]


def pytorch_seconds():
    import json

    import pytorch_peaks

    config = json.loads((ROOT / "sample_models/llama-3.2-1b/config.json").read_text())
    start = time.perf_counter()
    measured = pytorch_peaks.measure({"model": "llama1b", "config": config} | CASE)
    return time.perf_counter() - start, measured["peak_bytes"]


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/release/ac-advisor")
    planner = planner_seconds(program)
    print(f"ac-advisor plan, whole process, median of {RUNS}: {1e3 * planner:.1f} ms")
    try:
        seconds, peak = pytorch_seconds()
    except ImportError as missing:
        print(f"PyTorch: not measured ({missing})")
        return
    print(f"PyTorch under a storage tracker, one run: {seconds:.1f} s (peak {peak} bytes)")
    print(f"ratio: {seconds / planner:,.0f}")


if __name__ == "__main__":
    main()
