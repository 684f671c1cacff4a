"""Peaks and launches of compiled blocks with a window's mask, where flash attention gives way to the memory-efficient kernel.

    ac-advisor dryrun [--world 8] --output /dev/null -- python window_compile_peaks.py window_compile_peaks.json

As compile_peaks.py.
"""

import sys

import compile_peaks
import emulated_cases
import emulated_peaks
from emulated_cases import case

FSDP8 = {"shard": "fsdp2", "world": 8}
for model, window in (("mistral7b_4layers", 1024), ("phi3_mini_4layers", 2047)):  # as published, or less
    emulated_cases.VALUES[f"{model}_window"] = emulated_cases.VALUES[model] | {"sliding_window": window}


def cases():
    flash = {"kernels": "compiled", "attn": "flash"}
    for ac in ("none", "full", "selective"):
        yield case("gemma3_1b_6layers", 2, 2048, ac, **flash)
    for ac in ("none", "full"):
        yield case("phi3_mini_4layers_window", 2, 2048, ac, **flash)
        yield case("olmo3_7b_4layers", 1, 4096, ac, **flash)
    yield case("mistral7b_4layers_window", 2, 2048, "none", **flash)
    yield case("mistral7b_4layers_window", 2, 2048, "memory-budget:0.5", **flash)
    yield case("gemma3_1b_6layers", 3, 1000, "none", **flash)
    yield case("starcoder2_3b_4layers_undropped", 1, 4096, "full", **flash)
    yield case("gemma3_1b_6layers", 2, 2048, "none", **flash, **FSDP8)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), compile_peaks.measure, __doc__))
