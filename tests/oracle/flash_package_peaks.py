"""Peaks and launches of steps by transformers' flash_attention_2 of whole rows: soft-capped scores, windows as arguments.

    PYTHONPATH=flash_attn-2.8.3 ac-advisor dryrun [--world 8] --output /dev/null -- \\
        python flash_package_peaks.py flash_package_peaks.json

As emulated_peaks.py; `attn: flash` is flash-attn's own function (flash_package.py).
"""

import sys

import flash_package  # noqa: F401  before transformers
import torch
import transformers

import emulated_peaks
import training_step
from emulated_cases import case, config_of
from generate_peaks import auto_class

MODEL = "gemma2_2b_4layers"


def cases():
    for ac in ("none", "full", "selective"):
        yield case(MODEL, 2, 2048, ac, attn="flash")
    yield case(MODEL, 1, 8192, "none", attn="flash")
    yield case(MODEL, 1, 8192, "full", "chunked:1024", attn="flash")
    yield case(MODEL, 3, 1000, "none", attn="flash", grad_accum=2)
    yield case(MODEL, 2, 2048, "none", attn="flash", shard="fsdp2", world=8)
    yield case(MODEL, 2, 4608, "full", attn="flash", shard="fsdp2", world=8)


def model_of(entry):
    """On the meta device."""
    config = transformers.AutoConfig.for_model(**config_of(entry["model"]))
    config._attn_implementation = "flash_attention_2"
    with torch.device("meta"):
        model = auto_class(config).from_config(config, dtype=training_step.DTYPES[entry["param_dtype"]]).train()
    model.tie_weights()
    return model


emulated_peaks.model_of = model_of

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), emulated_peaks.measure, __doc__))
