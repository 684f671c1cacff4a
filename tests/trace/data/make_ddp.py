#!/usr/bin/env python3
"""Writes kineto_ddp.json.gz: torch.profiler's own trace of a convolutional net under DistributedDataParallel.

    tests/trace/data/make_ddp.py tests/trace/data/kineto_ddp.json.gz

PyTorch runs on the CPU, two blocks of Conv2d, BatchNorm2d and ReLU, each checkpointed, for one step. Ranges, ops,
modules' frames and sequence numbers are what it recorded; only what a GPU would add is made here: a launch in the middle
of each op that has no other in it, and its kernel of 2 us.
"""
import gzip
import json
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.checkpoint import checkpoint

KEPT = ("External id", "Ev Idx", "Sequence number", "Fwd thread id", "Python id", "Python parent id")
NO_KERNEL = ("aten::empty", "aten::detach", "aten::t", "aten::view", "aten::expand", "aten::as_strided", "aten::resize_",
             "aten::item", "aten::set_", "aten::result_type", "aten::_local_scalar_dense", "aten::alias")


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(x + self.norm(self.conv(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(4) for _ in range(2))
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x.mean((2, 3)))


def recorded(path):
    dist.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
    torch.set_num_threads(1)
    net = nn.parallel.DistributedDataParallel(Net(), bucket_cap_mb=0.001)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    images, labels = torch.randn(2, 4, 8, 8), torch.tensor([0, 1])

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()

    step()
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, with_modules=True,
                 schedule=schedule(wait=0, warmup=1, active=1, repeat=1),
                 on_trace_ready=lambda p: p.export_chrome_trace(path)) as p:
        for _ in range(2):
            step()
            p.step()
    dist.destroy_process_group()
    with open(path) as file:
        return json.load(file)


def is_kept(event):
    frames = event.get("cat") == "python_function"
    return event.get("ph") in ("X", "M") and (not frames or event["name"].startswith("nn.Module: "))


def without_ops_inside(ops):
    by_thread = {}
    for op in sorted(ops, key=lambda e: (e["ts"], -e["dur"])):
        by_thread.setdefault(op["tid"], []).append(op)
    for of_thread in by_thread.values():
        for op, following in zip(of_thread, of_thread[1:] + [None]):
            inner = following is not None and following["ts"] < op["ts"] + op["dur"]
            if not inner and op["name"].startswith("aten::") and op["name"] not in NO_KERNEL:
                yield op


def of_a_device(ops):
    free_at = 0
    for number, op in enumerate(sorted(without_ops_inside(ops), key=lambda e: e["ts"]), 1):
        of = {"External id": op["args"]["External id"], "correlation": number}
        launched = op["ts"] + op["dur"] / 2
        yield {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": op["pid"], "tid": op["tid"],
               "ts": launched, "dur": 0.5, "args": of | {"cbid": 211}}
        free_at = max(free_at, launched + 3) + 2
        yield {"ph": "X", "cat": "kernel", "name": "of_" + op["name"][6:], "pid": 0, "tid": 7, "ts": free_at - 2,
               "dur": 2, "args": of | {"device": 0, "context": 1, "stream": 7}}


def main():
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        trace = recorded(file.name)
    events = [e for e in trace["traceEvents"] if is_kept(e)]
    for event in events:
        if "dur" in event:
            event["args"] = {k: v for k, v in event.get("args", {}).items() if k in KEPT}
    ops = [e for e in events if e.get("cat") == "cpu_op"]
    text = json.dumps({"schemaVersion": trace["schemaVersion"], "traceEvents": events + list(of_a_device(ops))})
    with open(sys.argv[1], "wb") as out, gzip.GzipFile(fileobj=out, mode="wb", mtime=0, filename="") as packed:
        packed.write(text.encode())


if __name__ == "__main__":
    main()
