"""Steps of transformers' Qwen3-0.6B, to be recorded: python -m gpu_day.traced_step none|full"""

import os
import sys

MODEL, BATCH, SEQ, STEPS = "qwen3-0.6b", 2, 1024, 4


def main():
    os.environ["WORLD_SIZE"] = "1"

    import emulated_peaks
    import torch

    from . import oracle  # noqa: F401
    from .timing_worker import timed_step

    case = {"model": MODEL, "batch": BATCH, "seq": SEQ, "ac": sys.argv[1], "loss": "ce"}
    run = timed_step(emulated_peaks, torch, emulated_peaks.DEFAULTS | case | {"model": oracle.named(case)}, emulated_peaks.build)
    for _ in range(STEPS):
        torch.cuda.nvtx.range_push("step")
        run()
        torch.cuda.nvtx.range_pop()
        torch.cuda.synchronize()


main()
