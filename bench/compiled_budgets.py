"""--ac budget:SIZE of compiled blocks beside PyTorch's memory-budget:F at the same memory: docs/compiled.md's table.

    python bench/compiled_budgets.py build/release/ac-advisor [MODEL] [--batch N --seq N …]

Peaks and step times are plans' (estimates); SIZE is the peak that memory-budget:F has, to the byte.
"""

import json
import subprocess
import sys

SHARES = (0.9, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)


def plan(program, model, options, ac):
    command = [program, "plan", model, "--kernels", "compiled", "--attn", "cudnn", *options, "--ac", ac,
               "--format", "json"]
    profile = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return profile["memory"]["peak_allocated_bytes"], 1e3 * profile["time"]["step_seconds"], profile.get("budget")


def main():
    program, *rest = sys.argv[1:]
    model = rest.pop(0) if rest and not rest[0].startswith("-") else "llama-3.2-1b"
    options = rest or ["--batch", "8", "--seq", "2048"]
    print("| memory-budget | peak, bytes | step, ms | `budget:` that peak: peak | step, ms | chosen |")
    print("|---|---|---|---|---|---|")
    for share in SHARES:
        peak, step, _ = plan(program, model, options, f"memory-budget:{share}")
        own_peak, own_step, budget = plan(program, model, options, f"budget:{peak}")
        assert own_peak <= peak and own_step <= step + 1e-6, f"memory-budget:{share} is better"
        print(f"| {share} | {peak:,} | {step:.1f} | {own_peak:,} | {own_step:.1f} | {budget['plan']} |")


if __name__ == "__main__":
    main()
