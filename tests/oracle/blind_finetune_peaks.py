"""As drawn_finetune_peaks.py, of the steps that blind_finetune_cases.py draws; DeepSpeed's in a process each (--only), as an
engine leaves hooks behind, by the rank that is planned.

    ac-advisor dryrun [--world N] [--rank R] --output /dev/null -- python blind_finetune_peaks.py blind_finetune_peaks.json
    ac-advisor dryrun --output /dev/null -- python blind_finetune_peaks.py --list    # world, rank and label of DeepSpeed's

Needs torchtune 0.6.1's, transformer_engine 2.14.0's and DeepSpeed 0.19.8's files on PYTHONPATH.
"""

import os
import sys

import torch

import drawn_finetune_peaks
import emulated_peaks
from drawn_finetune_peaks import MORE, PLAIN_MODEL, steps

import adapter_compile_peaks  # noqa: E402  it puts its own in emulated_peaks' place, as others do
import compile_peaks
import float8_peaks
import peft_methods_peaks
import peft_peaks
import zero_peaks
from blind_finetune_cases import blind_finetune_cases
from emulated_cases import config_of, label

emulated_peaks.model_of = PLAIN_MODEL
BY_BLOCKS = adapter_compile_peaks.model_of


def on_deepspeed(entry):
    return entry.get("shard", "none").startswith("zero")


def words_of(entry):
    named = {key: value for key, value in entry.items() if key != "model" and value is not False}
    words = " ".join(f"--{key.replace('_', '-')}" + ("" if value is True else f" {value}") for key, value in named.items())
    return words + (" --no-hold-output" if entry.get("hold_output") is False else "")


def rank_of(entry):
    if entry["shard"] == "zero3":
        return 0
    zero_peaks.MODELS[entry["model"]] = config_of(entry["model"])
    return zero_peaks.planned_rank(entry["model"], zero_peaks.parse(words_of(entry)))


def engines_step(entry):
    zero_peaks.MODELS[entry["model"]] = config_of(entry["model"])
    return zero_peaks.figures_of(entry["model"], words_of(entry))


def compiled(entry):
    peft_peaks.plain = PLAIN_MODEL
    emulated_peaks.model_of = BY_BLOCKS if entry.get("lora") else PLAIN_MODEL
    try:
        return compile_peaks.measure(entry)
    finally:
        emulated_peaks.model_of = PLAIN_MODEL


def method(entry):
    trainable = peft_methods_peaks.trainable
    figures = emulated_peaks.measure(MORE | entry, peft_methods_peaks.build, steps)
    return figures | {"trainable": trainable.pop()}


def in_fp8(entry):
    with float8_peaks.converting(entry):
        make = emulated_peaks.make_optimizer if entry.get("fp8_all_gather") else drawn_finetune_peaks.make_optimizer
        usual, drawn_finetune_peaks.make_optimizer = drawn_finetune_peaks.make_optimizer, make
        try:
            return emulated_peaks.measure(MORE | entry, emulated_peaks.build, steps)
        finally:
            drawn_finetune_peaks.make_optimizer = usual


def images(entry):
    return emulated_peaks.measure(entry)


BY_KEY = {"adapter": method, "kernels": compiled, "fp8": in_fp8, "images": images}


def measure(entry):
    if on_deepspeed(entry):
        return engines_step(entry)
    for key, step in BY_KEY.items():
        if key in entry:
            return step(entry)
    return drawn_finetune_peaks.measure(entry)


def main():
    cases = list(blind_finetune_cases())
    if "--list" in sys.argv:
        for entry in filter(on_deepspeed, cases):
            print(entry["world"], rank_of(entry), label(entry))
        return 0
    own = any(on_deepspeed(entry) and label(entry) in sys.argv for entry in cases)
    return emulated_peaks.main(cases, measure, __doc__, lambda entry: own or not on_deepspeed(entry))


if __name__ == "__main__":
    sys.exit(main())
