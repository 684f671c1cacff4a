"""Peaks and launches of steps in a ring whose blocks torch.compile has made, on the emulated device.

    ac-advisor dryrun --world N --rank R --output /dev/null -- python compile_cp_peaks.py compile_cp_peaks.json

As cp_peaks.py; each of transformers' blocks, with its checkpoint around it, is compiled before FSDP2 shards it, as
TorchTitan compiles its own (models/llama3/infra/parallelize.py). Cases with fp8 have float8_tp_peaks.py's layers. All
are drawn by seed.
"""

import os
import random
import sys

import compile_tp_peaks
import cp_cases
import cp_peaks
import emulated_peaks
from cp_cases import make, rank_of

MODELS = ("llama1b_4layers", "qwen2_05b_4layers", "qwen3_06b_4layers", "mistral7b_4layers")


def cases():
    draw = random.Random(20261129)
    for _ in range(18):
        cp = draw.choice((2, 4))
        dtypes = draw.choice(({}, cp_cases.MIXED, cp_cases.MIXED | cp_cases.UNITS))
        fp8 = draw.choice(("none", "none", "tensorwise", "rowwise"))
        yield make(draw.choice(MODELS), cp, cp - 2, draw.choice(("none", "full", "selective")),
                   draw.choice((1, 2)), draw.choice((2048, 4096)), world=draw.choice((cp, 8)), kernels="compiled",
                   hold_output=draw.choice((True, False)), **dtypes, **({} if fp8 == "none" else {"fp8": fp8}))


def measure(entry):
    return compile_tp_peaks.compiled(entry, cp_peaks.measure)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__,
                                 lambda entry: rank_of(entry) == int(os.environ["RANK"])))
