"""Peaks and launches of pipeline ranks whose blocks' linear layers are torchao's Float8Linear, on the emulated device.

    ac-advisor dryrun --world N --rank R --output /dev/null -- python float8_pp_peaks.py float8_pp_peaks.json

As pp_peaks.py; a case has its keys, and fp8 and fp8_all_gather.
"""

import os
import sys

import emulated_peaks
import float8_tp_peaks
import pp_peaks
from pp_cases import FULL, NONE, SELECTIVE, every_rank, rank_of

MODEL = "smollm17b_untied_4layers"
FOUR = {"world": 4, "shard": "fsdp2"}
TITAN = FOUR | {"param_dtype": "fp32", "compute_dtype": "bf16", "reduce_dtype": "fp32", "fsdp_unit": "torchtitan"}


def cases():
    for recipe in ("tensorwise", "rowwise"):
        fp8 = {"fp8": recipe}
        for ac in (NONE, FULL, SELECTIVE):
            yield from every_rank(MODEL, 2, "1f1b", 4, ac, **fp8)
            yield from every_rank(MODEL, 2, "1f1b", 4, ac, **TITAN, **fp8)
        yield from every_rank("mistral7b_4layers", 2, "gpipe", 4, FULL, **fp8)
        yield from every_rank("smollm17b_untied_8layers", 2, "interleaved:2", 4, **fp8)
        yield from every_rank("smollm17b_untied_8layers", 2, "interleaved:2", 4, FULL, **TITAN, **fp8)
    gathered = {"fp8": "tensorwise", "fp8_all_gather": True}
    for ac in (NONE, FULL, SELECTIVE):
        yield from every_rank(MODEL, 2, "1f1b", 4, ac, **TITAN, **gathered)
    yield from every_rank(MODEL, 2, "1f1b", 4, FULL, **FOUR, **gathered)
    layers = {"tp": 2, "world": 4}
    for recipe in ("tensorwise", "rowwise"):
        for ac in (NONE, FULL, SELECTIVE):
            yield from every_rank(MODEL, 2, "1f1b", 4, ac, fp8=recipe, **layers)
        yield from every_rank(MODEL, 2, "1f1b", 4, SELECTIVE, fp8=recipe, **TITAN | layers | {"world": 8})
    yield from every_rank(MODEL, 2, "1f1b", 4, SELECTIVE, **gathered, **TITAN | layers | {"world": 8})


def measure(entry):
    with float8_tp_peaks.converting(entry):
        return pp_peaks.measure(entry)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__,
                                 lambda entry: rank_of(entry) == int(os.environ["RANK"])))
