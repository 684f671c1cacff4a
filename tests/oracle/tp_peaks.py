"""Peaks and launches of tensor-parallel steps on the emulated device, as emulated_peaks.py has them.

    ac-advisor dryrun --world N --output /dev/null -- python tp_peaks.py OUTPUT.json [--only LABEL] [--again]

Runs the cases of tp_cases.py that have this world.
"""

import argparse
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import transformers

import emulated_peaks
import tp_step
import training_step
from emulated_cases import config_of, label
from tp_cases import all_cases


def build(entry, on_loss):
    config = transformers.AutoConfig.for_model(**config_of(entry["model"]))
    config._attn_implementation = "eager" if entry["attn"] == "eager" else "sdpa"
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=training_step.DTYPES[entry["param_dtype"]]).train()
    model.tie_weights()
    mesh = tp_step.meshes(entry)
    tp_step.parallelize(model, mesh["tp"], entry)
    blocks = training_step.blocks_of(model)
    ac = entry["ac"].replace("grouped:", "seg").replace("every:", "every").replace("selective", "selop")
    training_step.checkpoint_blocks(model, ac)
    step = training_step.Step(model, entry["loss"].replace("ce", "hf"), on_loss)
    if entry["shard"] == "fsdp2":
        tp_step.shard(step, blocks, mesh["dp"], entry)
    emulated_peaks.on_device(step)
    return step, step


def measure(entry):
    entry = {"loss_parallel": True} | entry
    emulated_peaks.build = build
    with tp_step.losses(entry):
        return emulated_peaks.measure(entry)


def write(path, done):
    source = f"PyTorch {torch.__version__}, transformers {transformers.__version__}, emulated h100-80gb"
    order = {label(entry): i for i, entry in enumerate(all_cases())}
    cases = sorted((c for c in done if label(c["case"]) in order), key=lambda c: order[label(c["case"])])
    models = {name: config_of(name) for name in dict.fromkeys(c["case"]["model"] for c in cases)}
    with open(path + ".part", "w") as file:
        file.write('{"source": ' + json.dumps(source) + ', "models": {\n')
        file.write(",\n".join(f"{json.dumps(name)}: {json.dumps(config)}" for name, config in models.items()))
        file.write('\n}, "cases": [\n' + ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")
    os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--only", default="", help="cases whose label has this text")
    parser.add_argument("--again", action="store_true", help="those that the file has, too")
    options = parser.parse_args()
    world = int(os.environ.get("WORLD_SIZE", "1"))
    dist.init_process_group("nccl")
    done = []
    if os.path.exists(options.output):
        with open(options.output) as file:
            done = json.load(file)["cases"]
    have = {label(c["case"]) for c in done}
    for entry in all_cases():
        name = label(entry)
        if entry["world"] != world or options.only not in name or name in have and not options.again:
            continue
        emulated_peaks.nothing_left()
        start = time.time()
        figures = measure(entry)
        done = [c for c in done if label(c["case"]) != name] + [{"case": entry} | figures]
        print(f"{name}  {figures['peak_allocated']} {figures['peak_reserved']}  {time.time() - start:.1f} s", flush=True)
        write(options.output, done)
    return 0


if __name__ == "__main__":
    sys.exit(main())
