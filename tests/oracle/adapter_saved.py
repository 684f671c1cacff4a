"""What torch.compile keeps of a block with PEFT's adapters over a frozen base, for seven memory budgets.

    ac-advisor dryrun --output /dev/null -- python adapter_saved.py adapter_saved.json [--only MODEL] [--joint FILE]

As compile_saved.py; a case has `lora`, `lora_targets` and `lora_dtype`, too, and `input_require_grads`: whether the
embedding's output, the block's input, asks for a gradient. Only the first block is there: where it is not asked for, the
case is what the first block of a model saves, and otherwise what each other one does. `--joint` writes the joint graphs.
"""

import argparse
import sys

import torch

import adapter_compile_peaks
import compile_saved
from emulated_cases import config_of

ALL, ATTENTION = "all-linear", "q_proj,v_proj"
MODELS = ("llama1b", "qwen2_05b_4layers", "qwen3_06b_4layers", "mistral7b", "smollm3_3b_4layers", "granite31_8b_4layers",
          "olmo2_7b_4layers", "gemma_7b_4layers", "small_llama", "tiny_llama")
# (targets, dtype, whether the block's input asks for a gradient)
KINDS = ((ATTENTION, "fp32", False), (ATTENTION, "fp32", True), (ATTENTION, "bf16", True), (ALL, "fp32", True),
         (ALL, "bf16", False), (ALL, "bf16", True))


def measure(model, batch, seq, options, joint):
    return compile_saved.measure_of(
        lambda entry: adapter_compile_peaks.model_of(entry | options), model, batch, seq, joint)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--only", default="", help="models whose name has this text")
    parser.add_argument("--joint", help="where to write joint graphs")
    options = parser.parse_args()
    torch.ones((), device="cuda")
    cases, models = [], {}
    for model in MODELS:
        if options.only not in model:
            continue
        models[model] = config_of(model)
        batch, seq = (2, 32) if model.startswith("tiny_") else (2, 1000)
        for targets, dtype, needed in KINDS:
            how = {"lora": 8, "lora_targets": targets, "lora_dtype": dtype, "input_require_grads": "on" if needed else "off"}
            saved = measure(model, batch, seq, how, options.joint)
            cases.append({"model": model, "batch": batch, "seq": seq, **how, "saved": saved})
            print(model, how, {b: len(s) for b, s in saved.items()}, flush=True)
    compile_saved.write(options.output, models, cases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
