"""Allocated and reserved peaks and launches of real steps of captured models, on the emulated device.

    ac-advisor dryrun [--world N] --output /dev/null -- python graph_peaks.py graph_peaks.json [--only LABEL]
        [--again]

Runs the cases of graph_cases.py that have this world and puts them beside those that the file has. The step is
emulated_peaks.py's: forward, loss, backward, optimizer; two steps (of DDP three), the last is measured. A
checkpoint is `checkpoint_wrapper(block, preserve_rng_state=False)` around the blocks that the capture finds;
fully_shard is called on each of these blocks and on the model. graph_plans.py lays plans beside.
"""

import argparse
import contextlib
import gc
import json
import os
import sys

import torch
import torch.distributed as dist
import transformers
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
from ac_advisor.capture.blocks import find_blocks  # noqa: E402
from ac_advisor.capture.graph import build  # noqa: E402
from ac_advisor.capture.step import call, loss_of  # noqa: E402
import loop_names  # noqa: E402
from emulated_cases import label  # noqa: E402
from emulated_peaks import PHASES, LAUNCHES, Marks, highest, nothing_left  # noqa: E402
from graph_cases import all_cases, make_model_of  # noqa: E402
from training_step import torchtitan_policy  # noqa: E402


def placed_anew(model):
    """One after the other, as the planner takes them to lie: a model that is cast on the device leaves holes."""
    model.cpu()
    gc.collect()
    torch.cuda.empty_cache()
    model.cuda()


def sharded(model, blocks, case):
    """What trains: the model, sharded in place, or inside DistributedDataParallel."""
    shard = case.get("shard", "none")
    if shard == "none":
        return model
    if shard == "ddp":
        return DistributedDataParallel(model, gradient_as_bucket_view=case.get("gradient_as_bucket_view", True))
    ranks, names = (case["world"],), ("shard",)
    if shard.startswith("hsdp:"):
        group = int(shard.removeprefix("hsdp:"))
        ranks, names = (case["world"] // group, group), ("replicate", "shard")
    mesh = dist.init_device_mesh("cuda", ranks, mesh_dim_names=names)
    for block in blocks:
        kept = case.get("keep_last_block", False) and block is blocks[-1]
        fully_shard(block, mesh=mesh, reshard_after_forward=not kept)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    return model


def synchronises(case, model, last):
    """--no-sync: gradients are reduced after the last micro-batch alone."""
    if not case.get("no_sync", False):
        return contextlib.nullcontext()
    if case["shard"] == "ddp":
        return contextlib.nullcontext() if last else model.no_sync()
    model.set_requires_gradient_sync(last)
    return contextlib.nullcontext()


def checkpointed(model, ac):
    every = {"none": 0, "full": 1, "selective": 1}.get(ac) if ":" not in ac else int(ac.partition(":")[2])
    options = {"context_fn": torchtitan_policy} if ac == "selective" else {}
    paths = [path for path, _ in model.named_modules()]
    for place, number in enumerate(find_blocks(model, None) if every else []):
        if place % every:
            continue
        parent, _, name = paths[number].rpartition(".")
        holder = model.get_submodule(parent)
        holder[int(name)] = checkpoint_wrapper(holder[int(name)], preserve_rng_state=False, **options)


def run_step(case, model, inputs, loss_fn, optimizer, marks, kept):
    optimizer.zero_grad(set_to_none=True)
    micro_batches = case.get("grad_accum", 1)
    for number in range(micro_batches):
        with synchronises(case, model, number + 1 == micro_batches):
            marks.enter("forward")
            loop_names.before_forward(case, kept)
            output = call(model, inputs)
            marks.enter("loss")
            loss = loss_of(output, loss_fn)
            loop_names.assign(kept, *([output, loss] if case.get("hold_output", True) else [loss]))
            del output
            marks.enter("backward")
            loss.backward()
            del loss
    marks.enter("optimizer")
    optimizer.step()


def measure(case, make_model):
    model, inputs, loss_fn = build(make_model, case["batch"], case["seq"], None)
    blocks = [list(model.modules())[number] for number in find_blocks(model, None)]
    checkpointed(model, case["ac"])
    if case.get("shard") == "ddp":
        placed_anew(model)
    model = sharded(model, blocks, case)
    if case.get("shard") != "ddp":
        placed_anew(model)
    kind = {"foreach": True} if case.get("optimizer") == "adamw-foreach" else {"fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), **kind)
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    marks, kept, every = Marks(case), [], []
    for _ in range(3 if case.get("shard") == "ddp" else 2):  # the second of DDP makes its buckets anew
        marks.figures = {}
        run_step(case, model, inputs, loss_fn, optimizer, marks, kept)
        marks.enter(None)
        every.append(marks.figures)
    last = every[-1]
    return {"peak_allocated": highest(last, "allocated"),
            "peak_reserved": max(highest(step, "reserved") for step in every),
            "first_step_peak": highest(every[0], "allocated"),
            "allocated": {p: last[p]["allocated"] for p in PHASES},
            "launches": {p: sum(last[p][a] for a in LAUNCHES) for p in PHASES}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--only", default="", help="cases whose label has this text")
    parser.add_argument("--again", action="store_true", help="those that the file has, too")
    options = parser.parse_args()
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("nccl")
    torch.ones((), device="cuda")
    done = {}
    if os.path.exists(options.output):
        with open(options.output) as file:
            done = {label(one["case"]): one for one in json.load(file)["cases"]}
    for case in all_cases():
        name = label(case)
        if case.get("world", 1) != world or options.only not in name or (name in done and not options.again):
            continue
        nothing_left()
        done[name] = {"case": case} | measure(case, make_model_of(case["model"]))
        print(name, done[name]["peak_allocated"], done[name]["peak_reserved"], flush=True)
    source = f"PyTorch {torch.__version__}, transformers {transformers.__version__}, emulated h100-80gb"
    with open(options.output, "w") as file:
        file.write('{"source": ' + json.dumps(source) + ', "cases": [\n')
        file.write(",\n".join(json.dumps(done[label(case)]) for case in all_cases() if label(case) in done) + "\n]}\n")


if __name__ == "__main__":
    main()
