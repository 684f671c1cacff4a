"""Peaks and launches of pipeline ranks whose blocks have PEFT's adapters, on the emulated device.

    ac-advisor dryrun --world N --rank R --output /dev/null -- python pp_lora_peaks.py pp_lora_peaks.json

As pp_peaks.py; a case has its keys, and peft_peaks.py's. PEFT wraps the whole model, which is then cut into stages.
"""

import os
import sys

import emulated_peaks
import peft_peaks  # noqa: F401: its models have adapters
import pp_peaks
import pp_step
from pp_cases import FULL, MIXED, NONE, SELECTIVE, every_rank, rank_of

FOUR, EIGHT = "smollm17b_untied_4layers", "smollm17b_untied_8layers"
SHARDED = {"world": 4, "shard": "fsdp2"}
QV = {"lora": 8, "lora_targets": "q_proj,v_proj", "input_require_grads": "off"}
ALL = {"lora": 16, "lora_targets": "all-linear", "lora_dtype": "bf16", "input_require_grads": "off"}


def cases():
    for ac in (NONE, FULL, SELECTIVE):
        yield from every_rank(FOUR, 2, "1f1b", 4, ac, **QV)
        yield from every_rank(FOUR, 2, "1f1b", 4, ac, **ALL, **SHARDED)
    yield from every_rank(FOUR, 2, "1f1b", 4, FULL, **ALL | {"input_require_grads": "on"})
    yield from every_rank(FOUR, 2, "1f1b", 4, **QV, **SHARDED, **MIXED)
    yield from every_rank("mistral7b_4layers", 2, "gpipe", 4, FULL, **ALL)
    yield from every_rank(EIGHT, 2, "interleaved:2", 4, **QV, batch=2)
    yield from every_rank(EIGHT, 4, "1f1b", 8, FULL, **ALL, clip_grad=1.0)
    yield from every_rank("llama1b_4layers", 2, "1f1b", 4, FULL, **QV)  # tied, and frozen
    yield from every_rank("llama1b_4layers", 2, "1f1b", 8, **ALL, seq=1000, batch=3)
    late = QV | {"lora_targets": "model.layers.5.self_attn.q_proj,model.layers.7.self_attn.q_proj"}
    for ac in (NONE, FULL):  # nothing is trained on the first stage, and on the second
        yield from every_rank(EIGHT, 2, "interleaved:2", 4, ac, **late)
    yield from every_rank(EIGHT, 2, "interleaved:2", 4, FULL, **late, **SHARDED)
    yield from every_rank(FOUR, 2, "1f1b", 4, FULL, **ALL, dora=True)
    yield from every_rank(FOUR, 2, "1f1b", 4, **ALL, lora_dropout=0.05)
    for ac in (NONE, FULL):
        yield from every_rank(FOUR, 2, "1f1b", 4, ac, **ALL, quantize="nf4")
    yield from every_rank(FOUR, 2, "zb1", 4, **QV)
    yield from every_rank(EIGHT, 2, "zbv", 4, **ALL, **SHARDED)


pp_step.add_tied = lambda stages, mesh: lambda: None  # the base is frozen

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), pp_peaks.measure, __doc__,
                                 lambda entry: rank_of(entry) == int(os.environ["RANK"])))
