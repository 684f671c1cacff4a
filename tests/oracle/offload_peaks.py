"""Writes offload_peaks.json: peaks of steps under TRL's OffloadActivations, by real PyTorch on the emulated device.

    ac-advisor dryrun --gpu h100-80gb --output /dev/null -- python offload_peaks.py OUTPUT.json [--only TEXT]

A case is a model of loop_cases.MODELS and the planner's own options, as in loop_peaks.py. Of --framework trl the
step is SFTTrainer's, with activation_offloading=True; else the loop of loop_step.py, forward and backward inside of
get_act_offloading_ctx_manager's context, as SFTTrainer.training_step has them.
"""

import argparse
import gc
import json
import sys
import time

import loop_peaks
import torch
import trl
from loop_cases import MODELS, of
from loop_step import DTYPES, build, parse, train_step
from loop_trainer import measure_trainer
from trl.models.activation_offloading import get_act_offloading_ctx_manager


# Small vocabularies: blocks, not the loss, make the peak.
MODELS["narrow"] = of("llama", 1024, 3072, 8, 16, 16, 64, 2048, False)
MODELS["shared"] = of("qwen3", 1024, 3072, 8, 16, 8, 128, 2048, True)


def cases():
    for name in ("narrow", "shared"):
        for ac in ("none", "full"):
            yield name, f"--attn flash --batch 4 --seq 2048 --ac {ac} --offload activations"
        yield name, "--attn flash --batch 3 --seq 1000 --offload activations"
    for name in ("llama", "untied", "mistral", "qwen2", "qwen3"):
        for ac in ("none", "full"):
            yield name, f"--attn flash --batch 2 --seq 2048 --ac {ac} --offload activations"
        yield name, "--attn flash --batch 3 --seq 1000 --ac full --offload activations"
    for name in ("llama", "untied", "phi3", "olmo2", "granite", "smollm3"):
        yield name, "--attn flash --batch 2 --seq 1024 --ac full --no-hold-output --offload activations"
    for name in ("llama", "qwen2"):
        yield name, "--attn flash --batch 1 --seq 777 --ac full --offload activations"
        yield name, "--attn flash --batch 2 --seq 1024 --grad-accum 2 --ac full --offload activations"
    for name in ("llama", "untied", "qwen2", "qwen3"):
        yield name, "--framework trl --attn flash --batch 2 --seq 1024 --offload activations"
        yield name, "--framework trl --attn flash --batch 2 --seq 1024 --param-dtype bf16 --offload activations"


def measure(model, words):
    """Figures of the second step, which has moments; reserved memory is that of both."""
    options = parse(words.replace(" --offload activations", ""))
    if options.framework == "trl":
        return measure_trainer(MODELS[model], options, DTYPES[options.param_dtype], activation_offloading=True)
    run = build(MODELS[model], options)
    context = get_act_offloading_ctx_manager(run.model)
    gc.collect()
    torch.cuda.empty_cache()
    peaks, reserved = {}, 0
    for _ in range(2):
        peaks = {}
        run.model.zero_grad(set_to_none=True)
        torch.cuda.reset_peak_memory_stats()
        train_step(run, options, lambda phase: loop_peaks.take(peaks, phase), context)
        reserved = max(reserved, torch.cuda.memory_reserved())
    return {"peak_allocated": max(peaks.values()), "peak_reserved": reserved, "peak_by_phase": peaks}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    kept = {}
    try:
        with open(arguments.output) as file:
            kept = {loop_peaks.label(c["model"], c["options"]): c for c in json.load(file)["cases"]}
    except FileNotFoundError:
        pass
    done = []
    for model, words in cases():
        name = loop_peaks.label(model, words)
        if arguments.only not in name:
            if name in kept:
                done.append(kept[name])
            continue
        start = time.time()
        loop_peaks.clear()
        figures = measure(model, words)
        done.append({"model": model, "options": words} | figures)
        print(f"{name}  {figures['peak_allocated']}  {time.time() - start:.1f} s", flush=True)
        write(arguments.output, done)
    write(arguments.output, done)
    return 0


def write(path, done):
    loop_peaks.write(path, done)
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace("emulated H100", f"trl {trl.__version__}, emulated H100", 1))


if __name__ == "__main__":
    sys.exit(main())
