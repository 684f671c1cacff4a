"""Peaks and launches of pipeline ranks whose blocks torch.compile has made, on the emulated device.

    ac-advisor dryrun --world N --rank R --output /dev/null -- python compile_pp_peaks.py compile_pp_peaks.json

As pp_peaks.py; each block of a stage, with its checkpoint around it, is compiled before FSDP2 shards it, as TorchTitan
does it (models/llama3/infra/parallelize.py). Cases with fp8 have float8_pp_peaks.py's layers.
"""

import os
import sys

import compile_peaks
import emulated_peaks
import float8_tp_peaks
import pp_peaks
from pp_cases import FULL, MIXED, NONE, SELECTIVE, UNITS, every_rank, rank_of

COMPILED = {"kernels": "compiled"}
FOUR = {"world": 4, "shard": "fsdp2"}
TITAN = FOUR | MIXED | UNITS
SMALL, EIGHT = "smollm17b_untied_4layers", "smollm17b_untied_8layers"


def cases():
    for ac in (NONE, FULL, SELECTIVE):
        yield from every_rank(SMALL, 2, "1f1b", 4, ac, **COMPILED)
        yield from every_rank(EIGHT, 2, "interleaved:2", 4, ac, **TITAN, **COMPILED)
    yield from every_rank("mistral7b_4layers", 2, "1f1b", 4, SELECTIVE, **TITAN, **COMPILED)
    yield from every_rank("qwen2_05b_4layers", 2, "1f1b", 4, **FOUR, **MIXED, **COMPILED)
    yield from every_rank("qwen3_06b_4layers", 2, "gpipe", 4, FULL, **COMPILED)
    yield from every_rank("llama1b_4layers", 2, "1f1b", 2, batch=2, clip_grad=1.0, **COMPILED)
    for ac in (NONE, FULL, SELECTIVE):
        yield from every_rank(SMALL, 2, "1f1b", 4, ac, world=4, tp=2, **COMPILED)
        yield from every_rank(EIGHT, 2, "interleaved:2", 4, ac, **TITAN | {"world": 8}, tp=2, **COMPILED)
    for recipe in ("tensorwise", "rowwise"):
        yield from every_rank(SMALL, 2, "1f1b", 4, SELECTIVE, **TITAN, fp8=recipe, **COMPILED)


def measure(entry):
    with compile_peaks.compiling(entry), float8_tp_peaks.converting(entry):
        return pp_peaks.measure(entry)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__,
                                 lambda entry: rank_of(entry) == int(os.environ["RANK"])))
