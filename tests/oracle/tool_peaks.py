"""What scripts that measure other tools' steps share: a file of draws, a line a case."""

import argparse
import gc
import importlib.metadata
import json
import os
import time

import torch

from emulated_cases import config_of
from loop_cases import MODELS


def label(case):
    words = case["training"] | {key: case[key] for key in ("images", "image_pixels", "prompt") if key in case}
    return " ".join([case["model"], *(f"{key}={value}" for key, value in words.items())])


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


def write(path, done, cases, packages):
    order = {label(case): i for i, case in enumerate(cases)}
    done = sorted((c for c in done if label(c["case"]) in order), key=lambda c: order[label(c["case"])])
    names = dict.fromkeys(c["case"]["model"] for c in done)
    models = {name: MODELS[name] if name in MODELS else config_of(name) for name in names}
    libraries = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    with open(path, "w") as file:
        file.write('{"source": ' + json.dumps(f"PyTorch {torch.__version__}, {libraries}, emulated h100-80gb") + ', "models": {\n')
        file.write(",\n".join(f"{json.dumps(name)}: {json.dumps(model)}" for name, model in models.items()))
        file.write('\n}, "cases": [\n' + ",\n".join(json.dumps(c) for c in done) + "\n]}\n")


def main(about, cases, measure, packages):
    """`packages`: named in the file with their versions."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
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
        write(arguments.output, done, cases, packages)
        print(f"{name}  {figures}  {time.time() - start:.1f} s", flush=True)
    return 0

