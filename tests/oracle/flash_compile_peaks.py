"""Peaks and launches of compiled blocks with transformers' flash_attention_2 of soft-capped scores.

    PYTHONPATH=flash_attn-2.8.3 ac-advisor dryrun [--world 8] --output /dev/null -- \\
        python flash_compile_peaks.py flash_compile_peaks.json

As compile_peaks.py, of drawn steps; `attn: flash` is flash-attn's own function (flash_package.py), an op of its own to Dynamo.
"""

import random
import sys

import flash_package_peaks  # before transformers

import compile_peaks
import eager_compile_peaks
import emulated_peaks
from emulated_cases import case


def cases():
    draw, seen = random.Random("flash attention of soft-capped scores, compiled"), []
    for _ in range(12):
        batch, seq = draw.choice(((2, 2048), (2, 1024), (4, 512), (8, 256), (3, 1000), (2, 777)))
        more = {"attn": "flash", "kernels": "compiled"} | draw.choice(eager_compile_peaks.SHARDS)
        entry = case(draw.choice(eager_compile_peaks.CAPPED_MODELS), batch, seq, draw.choice(("none", "none", "full")), **more)
        if entry not in seen:
            seen.append(entry)
    return seen


emulated_peaks.model_of = flash_package_peaks.model_of

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(cases(), compile_peaks.measure, __doc__))
