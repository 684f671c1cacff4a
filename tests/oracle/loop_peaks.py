"""Writes loop_peaks.json: peaks of training loops by real PyTorch on the emulated device.

    ac-advisor dryrun -- python loop_peaks.py OUTPUT.json [--only TEXT]
    ac-advisor dryrun --world 8 -- python loop_peaks.py OUTPUT.json --only "--world 8"

A case is a model of MODELS and the planner's own options, in its own words; `loop_step.py` does what
they say. Cases of the other world, and those that --only leaves out, keep the figures that the file has.
"""

import argparse
import contextlib
import gc
import json
import os
import sys
import time

import packed_flash  # noqa: F401  before transformers
import bitsandbytes
import torch
import transformers

from loop_cases import CASES, MODELS
from loop_step import DTYPES, build, parse, train_step
from loop_trainer import measure_trainer
from trl.models.activation_offloading import get_act_offloading_ctx_manager

WORKSPACES = torch._C._cuda_clearCublasWorkspaces


def take(peaks, phase):
    """Closes a phase: its peak of allocated memory."""
    peaks[phase] = max(peaks.get(phase, 0), torch.cuda.max_memory_allocated())
    torch.cuda.reset_peak_memory_stats()


def measure(model, words):
    """Figures of the second step, which has moments; reserved memory is that of both."""
    options = parse(words)
    offloads = options.offload == "activations"
    if options.framework in ("hf-trainer", "trl"):
        more = {"activation_offloading": True} if offloads else {}
        return measure_trainer(MODELS[model], options, DTYPES[options.param_dtype], **more)
    run = build(MODELS[model], options)
    around = get_act_offloading_ctx_manager(run.model) if offloads else contextlib.nullcontext()
    gc.collect()
    torch.cuda.empty_cache()
    peaks = {}
    reserved = 0
    for _ in range(2):
        peaks = {}
        run.model.zero_grad(set_to_none=True)
        torch.cuda.reset_peak_memory_stats()
        train_step(run, options, lambda phase: take(peaks, phase), around)
        reserved = max(reserved, torch.cuda.memory_reserved())
    for hook in run.hooks:  # they would keep the model alive
        hook.remove()
    return {"peak_allocated": max(peaks.values()), "peak_reserved": reserved, "peak_by_phase": peaks}


def clear():
    bitsandbytes.functional.name2qmap.clear()  # a code book that is made once
    gc.collect()
    WORKSPACES()
    torch.cuda.empty_cache()
    left = torch.cuda.memory_allocated() if torch.cuda.is_initialized() else 0
    if left:
        raise SystemExit(f"{left} bytes are left of the case before")


def write(path, cases, libraries):
    source = (f"PyTorch {torch.__version__}, transformers {transformers.__version__}, {libraries}emulated H100, "
              "flash attention (TORCH_CUDNN_SDPA_DEPRIORITIZED=1)")
    with open(path, "w") as file:
        file.write('{"source": ' + json.dumps(source) + ',\n "models": {\n')
        file.write(",\n".join(f"{json.dumps(name)}: {json.dumps(MODELS[name])}" for name in MODELS))
        file.write('},\n "cases": [\n')
        file.write(",\n".join(json.dumps(case) for case in cases))
        file.write("\n]}\n")


def label(model, words):
    return f"{model} {words}"


def main(cases, description, libraries=""):
    """`libraries`: named in the file beside PyTorch and transformers, "name version, " each."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    kept = {}
    if os.path.exists(arguments.output):
        with open(arguments.output) as file:
            kept = {label(c["model"], c["options"]): c for c in json.load(file)["cases"]}
    world = int(os.environ.get("WORLD_SIZE", "1"))
    done = []
    for model, words in cases:
        name = label(model, words)
        if arguments.only not in name or parse(words).world != world:
            if name in kept:
                done.append(kept[name])
            continue
        start = time.time()
        clear()
        try:
            figures = measure(model, words)
        except Exception as error:  # one mode that cannot run must not lose the others
            print(f"{name}  FAILED {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        done.append({"model": model, "options": words} | figures)
        print(f"{name}  {figures['peak_allocated']}  {time.time() - start:.1f} s", flush=True)
        write(arguments.output, done, libraries)  # what was measured stays if a later case ends the program
    write(arguments.output, done, libraries)
    return 0


if __name__ == "__main__":
    sys.exit(main(CASES, __doc__))
