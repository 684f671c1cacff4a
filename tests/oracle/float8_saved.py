"""What torch.compile keeps of a block whose linear layers are torchao's Float8Linear, for seven memory budgets.

    ac-advisor dryrun --output /dev/null -- python float8_saved.py float8_saved.json [--joint FILE]

As compile_saved.py, of the layers that float8_peaks.py converts; a case has `fp8`, too. `--joint` writes the joint graphs.
"""

import argparse
import sys

import torch
from torchao.float8 import convert_to_float8_training

import compile_saved
import emulated_peaks
from emulated_cases import config_of
from float8_peaks import config_of as recipe_of
from float8_peaks import converted

MODELS = ("llama1b", "smollm17b_untied_4layers", "mistral7b", "qwen2_05b_4layers", "qwen3_06b_4layers", "phi3_mini_4layers",
          "gemma_7b_4layers", "smollm3_3b_4layers", "granite31_8b_4layers", "olmo2_7b_4layers", "small_llama", "tiny_llama",
          "minitron_4b_4layers", "pythia_14b_4layers", "starcoder2_3b_4layers_undropped", "stablelm2_16b_4layers",
          "aya_8b_4layers", "glm4_9b_4layers", "ministral3_8b_4layers", "minicpm_2b_4layers", "internlm25_7b_4layers")
RECIPES = ("tensorwise", "rowwise")
SIZES = ((8, 2048), (2, 1008))


def measure(model, batch, seq, recipe, joint):
    plain = emulated_peaks.model_of
    return compile_saved.measure_of(
        lambda entry: convert_to_float8_training(
            plain(entry), config=recipe_of({"fp8": recipe}), module_filter_fn=converted), model, batch, seq, joint)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--joint", help="where to write joint graphs")
    options = parser.parse_args()
    torch.ones((), device="cuda")
    cases, models = [], {}
    for model in MODELS:
        models[model] = config_of(model)
        for recipe in RECIPES:
            for batch, seq in SIZES if not model.startswith("tiny_") else ((2, 32),):
                saved = measure(model, batch, seq, recipe, options.joint)
                cases.append({"model": model, "batch": batch, "seq": seq, "fp8": recipe, "saved": saved})
                print(model, recipe, batch, seq, {b: len(s) for b, s in saved.items()}, flush=True)
    compile_saved.write(options.output, models, cases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
