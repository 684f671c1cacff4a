"""Writes swift_peaks.json and swift_preference_peaks.json: peaks of training steps by ms-swift itself (swift_step.py), of the
commands that swift_cases.py draws, measured before they were planned.

    for world in 1 2; do
      ac-advisor dryrun --world $world --output /dev/null -- python swift_peaks.py swift_peaks.json
    done
    ac-advisor dryrun --output /dev/null -- python swift_peaks.py swift_preference_peaks.json
"""

import os
import sys

import swift_step
import transformers

from emulated_cases import config_of
from image_rows import image_rows
from loop_cases import MODELS
from swift_cases import TEXT_MODELS, images, preferences
from tool_peaks import main


def preference_row(task, seq, prompt):
    """Answers of --max_length tokens less the prompt's, whose labels are -100."""
    one = {"input_ids": [3] * seq, "labels": [-100] * prompt + [3] * (seq - prompt), "length": seq}
    row = {f"{side}_{key}": value for side in ("chosen", "rejected") for key, value in one.items()}
    return (lambda index: row | {"label": index % 2 == 0}) if task == "kto" else row


def measure(case):
    words = {key: value for key, value in case["training"].items() if key != "NPROC_PER_NODE"}
    seq = words["max_length"]
    quantize = "nf4-double" if words.pop("quant_method", None) else ""  # bnb_4bit_use_double_quant is true
    words.pop("quant_bits", None)
    if "images" in case:
        values = config_of(case["model"])
        row = image_rows(transformers.AutoConfig.for_model(**values), seq, case["images"], case["image_pixels"])
        return swift_step.run(values, words, row, quantize)
    row = preference_row(words["rlhf_type"], seq, case["prompt"])
    return swift_step.run(MODELS[case["model"]], words, row, quantize, rlhf=True, model_type=TEXT_MODELS[case["model"]],
                          template="chatml")


if __name__ == "__main__":
    cases = preferences() if "preference" in os.path.basename(sys.argv[1]) else images()
    sys.exit(main(__doc__, list(cases), measure, ("transformers", "ms_swift", "trl", "peft")))
