"""Peaks of real PyTorch training steps, measured without a GPU.

A Hugging Face model is built from its config under FakeTensorMode and trained for two steps, while a
dispatch mode follows every untyped storage from its creation to its last reference. The numbers are
of the second step, the first one that has optimizer moments. README.md in this folder says more.

    pytorch_peaks.py --check REFERENCE.json [--only llama1b/8/2048/full]
    pytorch_peaks.py --config config.json --ac full --loss chunk [--set world=3] [--trace FILE]
"""

import argparse
import gc
import json
import sys
import time

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from storage_tracker import StorageTracker, TraceLog, local
from training_step import DEFAULTS, build, fake_mesh, make_optimizer, train_step

CASE = ("model", "config", "batch", "seq", "ac", "loss", "sharding", "optimizer")


def measure(case, trace=None):
    """The figures of the case's second step."""
    case = DEFAULTS | case
    tracker = StorageTracker(TraceLog(trace) if trace else None)
    mesh = fake_mesh(case["sharding"])
    with FakeTensorMode(allow_non_fake_inputs=True):
        step = build(case, mesh, on_loss=lambda: tracker.enter_phase("loss"))
        for name, module in step.named_modules():
            module.register_forward_pre_hook(lambda *_, name=name: tracker.enter_module(name))
            module.register_forward_hook(lambda *_, name=name: tracker.leave_module(name))
        optimizer = make_optimizer(case, step)
        ids, labels = (torch.zeros(case["batch"], case["seq"], dtype=torch.int64) for _ in range(2))
        for _, tensor in named_tensors(step, optimizer, ids, labels):
            tracker.follow(tensor)
        with tracker:
            kept = []
            for number in range(2):
                gc.collect()
                tracker.start_step()
                if number == 1 and trace:
                    tracker.log.start(tracker, named_tensors(step, optimizer, ids, labels))
                train_step(case, step, optimizer, ids, labels, tracker.enter_phase, kept)
                tracker.phase = None
                optimizer.zero_grad(set_to_none=True)
    if trace:
        tracker.log.write()
    return tracker.figures()


def named_tensors(step, optimizer, ids, labels):
    """What is alive before a step."""
    yield "input_ids", ids
    yield "labels", labels
    yield from step.named_buffers()
    for name, parameter in step.named_parameters():
        yield name, local(parameter)
        for key, state in optimizer.state.get(parameter, {}).items():
            if isinstance(state, torch.Tensor):
                yield f"{name}.{key}", local(state)


def check(path, only):
    """How many cases of a file differ from what is measured now."""
    with open(path) as file:
        cases = json.load(file)["cases"]
    differing = 0
    for number, expected in enumerate(cases):
        label = "/".join(str(expected[key]) for key in CASE if key != "config")
        if only not in label:
            continue
        start = time.time()
        got = measure({key: expected[key] for key in (*CASE, *DEFAULTS) if key in expected})
        compared = (key for key in got if not key.startswith("ops_"))  # these count Python's questions too
        wrong = [f"{key} {got[key]}, expected {expected[key]}" for key in compared if got[key] != expected[key]]
        differing += bool(wrong)
        print(f"{number:3} {label}  {time.time() - start:.0f} s  " + ("; ".join(wrong) or "equal"), flush=True)
    return differing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="FILE")
    parser.add_argument("--only", default="", help="with --check: cases whose label contains this")
    parser.add_argument("--config", metavar="FILE")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seq", type=int, default=32)
    parser.add_argument("--ac", default="none")
    parser.add_argument("--loss", default="hf")
    parser.add_argument("--sharding", default="single")
    parser.add_argument("--optimizer", default="fused")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=JSON", help=f"of {', '.join(DEFAULTS)}")
    parser.add_argument("--trace", metavar="FILE")
    options = parser.parse_args()
    if options.check:
        return 1 if check(options.check, options.only) else 0
    with open(options.config) as file:
        config = json.load(file)
    case = {key: getattr(options, key) for key in CASE[2:]} | {"model": options.config, "config": config}
    case |= {key: json.loads(value) for key, value in (item.split("=", 1) for item in options.set)}
    print(json.dumps(case | measure(case, options.trace), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
