"""Writes swift_peaks.json and swift_preference_peaks.json: peaks of training steps by ms-swift itself (swift_step.py), of the
commands that swift_cases.py draws, measured before they were planned.

    for world in 1 2; do
      ac-advisor dryrun --world $world --output /dev/null -- python swift_peaks.py swift_peaks.json
    done
    ac-advisor dryrun --output /dev/null -- python swift_peaks.py swift_preference_peaks.json
"""

import argparse
import gc
import importlib.metadata
import json
import os
import sys
import time

import swift_step
import torch
import transformers

from emulated_cases import config_of
from loop_cases import MODELS
from swift_cases import TEXT_MODELS, images, label, preferences


def preference_row(task, seq, prompt):
    """Answers of --max_length tokens less the prompt's, whose labels are -100."""
    one = {"input_ids": [3] * seq, "labels": [-100] * prompt + [3] * (seq - prompt), "length": seq}
    row = {f"{side}_{key}": value for side in ("chosen", "rejected") for key, value in one.items()}
    return (lambda index: row | {"label": index % 2 == 0}) if task == "kto" else row


def measure(case):
    words = {key: value for key, value in case["training"].items() if key != "NPROC_PER_NODE"}
    seq = words["max_length"]
    quantize = "nf4" if words.pop("quant_method", None) else ""
    words.pop("quant_bits", None)
    if "images" in case:
        values = config_of(case["model"])
        row = swift_step.image_rows(transformers.AutoConfig.for_model(**values), seq, case["images"], case["image_pixels"])
        return swift_step.run(values, words, row, quantize)
    row = preference_row(words["rlhf_type"], seq, case["prompt"])
    return swift_step.run(MODELS[case["model"]], words, row, quantize, rlhf=True, model_type=TEXT_MODELS[case["model"]])


def clear():
    import bitsandbytes
    bitsandbytes.functional.name2qmap.clear()
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    left = torch.cuda.memory_allocated()
    if left:
        raise SystemExit(3)  # a process each: what a Trainer leaves


def write(path, done, cases):
    order = {label(case): i for i, case in enumerate(cases)}
    done = sorted((c for c in done if label(c["case"]) in order), key=lambda c: order[label(c["case"])])
    names = dict.fromkeys(c["case"]["model"] for c in done)
    models = {name: MODELS[name] if name in MODELS else config_of(name) for name in names}
    libraries = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("transformers", "ms_swift", "trl", "peft"))
    with open(path, "w") as file:
        file.write('{"source": ' + json.dumps(f"PyTorch {torch.__version__}, {libraries}, emulated h100-80gb") + ', "models": {\n')
        file.write(",\n".join(f"{json.dumps(name)}: {json.dumps(model)}" for name, model in models.items()))
        file.write('\n}, "cases": [\n' + ",\n".join(json.dumps(c) for c in done) + "\n]}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    cases = list(preferences() if "preference" in os.path.basename(arguments.output) else images())
    done = []
    if os.path.exists(arguments.output):
        with open(arguments.output) as file:
            done = json.load(file)["cases"]
    have = {label(c["case"]) for c in done}
    world = int(os.environ.get("WORLD_SIZE", "1"))
    for case in cases:
        name = label(case)
        if name in have or arguments.only not in name or case["training"].get("NPROC_PER_NODE", 1) != world:
            continue
        start = time.time()
        clear()
        try:
            figures = measure(case)
        except Exception as error:  # one that cannot run must not lose the others
            print(f"{name}  FAILED {type(error).__name__}: {str(error)[:300]}", flush=True)
            if os.environ.get("TRACE"):
                raise
            continue
        done.append({"case": case} | figures)
        write(arguments.output, done, cases)
        print(f"{name}  {figures}  {time.time() - start:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
