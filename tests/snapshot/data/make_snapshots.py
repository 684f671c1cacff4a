#!/usr/bin/env python3
"""Writes the snapshots of this folder in the form of torch.cuda.memory._dump_snapshot, and
expected.json with what a counter saw while they were made. Needs Python alone.

The allocator below follows c10/cuda/CUDACachingAllocator.cpp as its comments tell: 512 B rounding,
segments of 2 MiB and 20 MiB and more, best fit, the rest of a large block is split off above 1 MiB.
It is written apart from the program's own replica, which the tests compare it with.
"""
import gzip
import json
import os
import pickle
import sys

MIB = 1 << 20
GRANULE = {True: 2 * MIB, False: 20 * MIB}  # of an expandable segment, by "small"


def rounded(size):
    return max(512, (size + 511) // 512 * 512)


class Block:
    def __init__(self, segment, address, size):
        self.segment, self.address, self.size = segment, address, size
        self.requested, self.frames, self.state = 0, [], "inactive"


class Allocator:
    """One device. Every event goes to `trace` as the allocator of torch 2.11 records it."""

    def __init__(self, device=0, expandable=False, capacity=None, base=0x7F0000000000):
        self.device, self.expandable, self.capacity = device, expandable, capacity
        self.segments, self.trace, self.time, self.next = [], [], 1_700_000_000_000_000, base
        self.allocated = self.reserved = self.peak_allocated = self.peak_reserved = 0
        self.recording, self.metadata = True, ""
        self.streams = {}

    def record(self, action, address, size, stream, frames):
        self.time += 7
        if not self.recording:
            return
        self.trace.append({
            "action": action, "device_free" if action == "oom" else "addr": address, "size": size,
            "stream": stream, "frames": frames, "time_us": self.time, "compile_context": "",
            "user_metadata": self.metadata})

    def blocks(self, stream, small):
        for s in self.segments:
            if s["stream"] == stream and s["small"] == small:
                yield from s["blocks"]

    def alloc(self, requested, frames, stream=0):
        size = rounded(requested)
        small = size <= MIB
        free = [b for b in self.blocks(stream, small) if b.state == "inactive" and b.size >= size]
        if not free:
            free = [self.grow(size, small, stream, frames)]
            if free[0] is None:
                self.record("oom", self.capacity - self.reserved, requested, stream, frames)
                raise MemoryError(requested)
        block = min(free, key=lambda b: (b.size, b.address))
        rest = block.size - size
        if rest >= 512 if small or self.expandable else rest > MIB:
            tail = Block(block.segment, block.address + size, rest)
            block.size = size
            blocks = block.segment["blocks"]
            blocks.insert(blocks.index(block) + 1, tail)
        block.requested, block.frames, block.state = requested, frames, "active_allocated"
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        self.record("alloc", block.address, requested, stream, frames)
        return block

    def grow(self, size, small, stream, frames):
        if self.expandable:
            segment = self.streams.get((stream, small))
            if segment is None:
                segment = {"stream": stream, "small": small, "address": self.next, "blocks": []}
                self.next += 1 << 40
                self.streams[stream, small] = segment
                self.segments.append(segment)
            blocks = segment["blocks"]
            last = blocks[-1] if blocks and blocks[-1].state == "inactive" else None
            have = last.size if last else 0
            more = (size - have + GRANULE[small] - 1) // GRANULE[small] * GRANULE[small]
            if not self.reserve(more):
                return None
            end = segment["address"] + sum(b.size for b in blocks)
            self.record("segment_map", end, more, stream, frames)
            if last is None:
                last = Block(segment, end, 0)
                blocks.append(last)
            last.size += more
            return last
        bytes_ = 2 * MIB if small else 20 * MIB if size < 10 * MIB else (size + 2 * MIB - 1) // (
            2 * MIB) * 2 * MIB
        if not self.reserve(bytes_):
            self.empty_cache(frames)
            if not self.reserve(bytes_):
                return None
        segment = {"stream": stream, "small": small, "address": self.next, "blocks": []}
        self.next += (bytes_ + 32 * MIB) // (32 * MIB) * 32 * MIB
        self.segments.append(segment)
        self.record("segment_alloc", segment["address"], bytes_, stream, frames)
        segment["blocks"].append(Block(segment, segment["address"], bytes_))
        return segment["blocks"][0]

    def reserve(self, size):
        if self.capacity is not None and self.reserved + size > self.capacity:
            return False
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return True

    def empty_cache(self, frames):
        for s in [s for s in self.segments if len(s["blocks"]) == 1]:
            b = s["blocks"][0]
            if b.state == "inactive" and not self.expandable:
                self.segments.remove(s)
                self.reserved -= b.size
                self.record("segment_free", b.address, b.size, s["stream"], frames)

    def free(self, block, frames, pending=False):
        self.allocated -= block.size
        self.record("free_requested", block.address, block.requested, block.segment["stream"],
                    frames)
        block.state = "active_pending_free"
        if not pending:
            self.complete(block, frames)

    def complete(self, block, frames):
        self.record("free_completed", block.address, block.requested, block.segment["stream"],
                    frames)
        block.state, block.frames = "inactive", []
        blocks = block.segment["blocks"]
        i = blocks.index(block)
        if i + 1 < len(blocks) and blocks[i + 1].state == "inactive":
            block.size += blocks.pop(i + 1).size
        if i > 0 and blocks[i - 1].state == "inactive":
            blocks[i - 1].size += blocks.pop(i).size

    def segment_dicts(self, addresses=True):
        for s in self.segments:
            blocks = [{"address": b.address, "size": b.size,
                       "requested_size": b.requested if b.state != "inactive" else 0,
                       "state": b.state, "frames": b.frames} for b in s["blocks"]]
            yield {"device": self.device, "address": s["address"],
                   "total_size": sum(b["size"] for b in blocks),
                   "allocated_size": sum(b["size"] for b in blocks
                                         if b["state"] == "active_allocated"),
                   "active_size": sum(b["size"] for b in blocks if b["state"] != "inactive"),
                   "requested_size": sum(b["requested_size"] for b in blocks), "stream":
                   s["stream"], "segment_type": "small" if s["small"] else "large",
                   "segment_pool_id": (0, 0), "is_expandable": self.expandable,
                   "frames": [], "blocks": blocks}


def frame(file, line, name):
    return {"filename": file, "line": line, "name": name}


SITE = "/opt/venv/lib/python3.12/site-packages/"
MAIN = [frame("/home/user/train.py", 80, "<module>")]
CALL = [frame(SITE + "torch/nn/modules/module.py", 1775, "_call_impl")]
TO = [frame(SITE + "torch/nn/modules/module.py", 1343, "convert"),
      frame(SITE + "torch/nn/modules/module.py", 927, "_apply")] + MAIN
OPTIM = [frame(SITE + "torch/optim/adamw.py", 145, "_init_group"),
         frame(SITE + "torch/optim/optimizer.py", 517, "step")] + MAIN
ZERO = [frame(SITE + "torch/optim/optimizer.py", 1026, "zero_grad")] + MAIN
AUTOGRAD = []  # its threads have no Python frames
LAYER = [frame("/home/user/model.py", 31, "forward")] + CALL + MAIN
LOSS = [frame(SITE + "torch/nn/functional.py", 3494, "cross_entropy")] + MAIN
BATCH = [frame("/home/user/train.py", 60, "batch")] + MAIN


class Training:
    """A model of `layers` equal weights, AdamW, `steps` steps; what is live by category."""

    counters = 0  # of steps, a number each, which a fused optimizer has on the device

    def __init__(self, allocator, layers=6, weight=3 * MIB + 100, activation=2 * MIB + 300,
                 frames=True):
        self.a, self.layers, self.weight, self.activation = allocator, layers, weight, activation
        self.frames = frames
        self.parameters, self.states, self.gradients, self.workspace = [], [], [], None
        self.at_peak = None

    def stack(self, frames):
        return frames if self.frames else []

    def build(self):
        self.parameters = [self.a.alloc(self.weight, self.stack(TO)) for _ in range(self.layers)]

    def live(self, **more):
        return {"parameters": self.parameters, "optimizer_states": self.states,
                "gradients": self.gradients,
                "workspace": [self.workspace] if self.workspace else [], **more}

    def note(self, **more):
        if self.a.allocated == self.a.peak_allocated:
            self.at_peak = {k: sum(b.size for b in v) for k, v in self.live(**more).items()}

    def begin_forward(self):
        pass

    def end_backward(self):
        pass

    def make_gradient(self, **live):
        self.gradients.append(self.a.alloc(self.weight, self.stack(AUTOGRAD)))
        self.note(**live)

    def step(self):
        a = self.a
        for g in self.gradients:
            a.free(g, self.stack(ZERO))
        self.gradients = []
        batch = [a.alloc(65536, self.stack(BATCH))]
        self.begin_forward()
        kept = []
        for _ in range(self.layers):
            scratch = a.alloc(self.activation // 2, self.stack(LAYER))
            self.note(activations=kept, temporaries=[scratch], inputs=batch)
            if self.workspace is None:
                self.workspace = a.alloc(8519680, self.stack(LAYER))
            kept.append(a.alloc(self.activation, self.stack(LAYER)))
            self.note(activations=kept, temporaries=[scratch], inputs=batch)
            a.free(scratch, self.stack(LAYER))
        kept.append(a.alloc(4, self.stack(LOSS)))
        self.note(activations=kept, temporaries=[], inputs=batch)
        upstream = None
        for _ in range(self.layers):
            now = a.alloc(self.activation, self.stack(AUTOGRAD))
            both = [now] + ([upstream] if upstream else [])
            self.note(activations=kept, temporaries=both, inputs=batch)
            self.make_gradient(activations=kept, temporaries=both, inputs=batch)
            if upstream:
                a.free(upstream, self.stack(AUTOGRAD))
            upstream = now
            a.free(kept.pop(), self.stack(AUTOGRAD))
        a.free(upstream, self.stack(AUTOGRAD))
        while kept:
            a.free(kept.pop(), self.stack(AUTOGRAD))
        self.end_backward()
        if not self.states:
            for _ in range(2 * self.layers):
                self.states.append(a.alloc(self.weight, self.stack(OPTIM)))
                self.note(activations=kept, inputs=batch)
            for _ in range(self.counters):
                self.states.append(a.alloc(4, self.stack(OPTIM)))
        scratch = a.alloc(self.weight, self.stack(OPTIM))
        self.note(activations=kept, temporaries=[scratch], inputs=batch)
        a.free(scratch, self.stack(OPTIM))
        a.free(batch[0], self.stack(MAIN))


DISTRIBUTED = SITE + "torch/nn/parallel/distributed.py"
WRAP = [frame(DISTRIBUTED, 1255, "_ddp_init_helper"), frame(DISTRIBUTED, 896, "__init__")] + MAIN
REBUILD = [frame(DISTRIBUTED, 1584, "_pre_forward"), frame(DISTRIBUTED, 1695, "forward")] + CALL + MAIN


class Distributed(Training):
    """Gradients are views of buckets: one until the second step's forward, two from then on. What backward makes is
    copied into them."""

    def build(self):
        super().build()
        self.buckets = [self.a.alloc(self.layers * self.weight, self.stack(WRAP))]

    def make_gradient(self, **live):
        own = self.a.alloc(self.weight, self.stack(AUTOGRAD))
        self.note(**{**live, "temporaries": live["temporaries"] + [own]})
        self.a.free(own, self.stack(AUTOGRAD))

    def begin_forward(self):
        if self.states and len(self.buckets) == 1:
            self.a.free(self.buckets[0], self.stack(REBUILD))
            self.buckets = [self.a.alloc(self.layers // 2 * self.weight, self.stack(REBUILD)) for _ in range(2)]

    def end_backward(self):
        self.a.free(self.a.alloc(600, self.stack(MAIN)), self.stack(MAIN))  # of no forward

    def live(self, **more):
        return {**super().live(**more), "gradients": self.buckets}


OWN = [frame("/home/user/my_optim.py", 73, "step"),
       frame(SITE + "torch/optim/optimizer.py", 533, "wrapper")] + MAIN


BARE = [frame("/home/user/my_optim.py", 73, "update")] + MAIN


class Frozen(Training):
    """Adapters over a base that is not trained: each layer has codes in 8 bits, and scales as large as an adapter,
    every second one the number that its scales are offset by."""

    def build(self):
        self.counters = self.layers
        self.base = [self.a.alloc(size, self.stack(TO)) for layer in range(self.layers)
                     for size in (8 * MIB + 64, self.weight) + (4,) * (layer % 2)]
        super().build()

    def live(self, **more):
        live = super().live(**more)
        return {**live, "parameters": self.base + self.parameters}


class OwnOptimizer(Training):
    """Its step makes each state anew and lets go of the old one."""

    def step(self):
        super().step()
        for i, old in enumerate(self.states):
            self.states[i] = self.a.alloc(self.weight, self.stack(OWN))
            self.note(replaced=[old])
            self.a.free(old, self.stack(OWN))


class Annotated(Training):
    """An optimizer whose stacks say nothing; record_function tells of its step, whose first event makes a segment."""

    def __init__(self, allocator):
        super().__init__(allocator)
        self.annotations = []

    def step(self):
        states, self.states = self.states, [None]  # the step of the class above makes none
        super().step()
        self.states = states
        name = "Optimizer.step#Own.step"
        self.annotations.append({"stage": "START", "name": name, "device": 0, "time_us": self.a.time + 3})
        made = [self.a.alloc(24 * MIB, self.stack(BARE))]  # of no free block
        self.note(temporaries=made)
        for i in range(2 * self.layers):
            new = self.a.alloc(self.weight, self.stack(BARE))
            if states:
                self.a.free(states[i], self.stack(BARE))
                states[i] = new
            else:
                made.append(new)
        self.a.free(made[0], self.stack(BARE))
        self.states = states or made[1:]
        self.annotations.append({"stage": "END", "name": name, "device": 0, "time_us": self.a.time + 3})

    def live(self, **more):
        return super().live(**more) if self.states != [None] else {**super().live(**more), "optimizer_states": []}


def late(kind, recorded):
    """Recording begins when the model and the optimizer's states exist, in the middle of nothing."""
    allocator = Allocator()
    training = kind(allocator)
    allocator.recording = False
    training.build()
    for _ in range(2):
        training.step()
    before = [b for s in allocator.segments for b in s["blocks"]]
    allocator.recording = True
    allocator.peak_allocated = allocator.allocated
    allocator.peak_reserved = allocator.reserved
    for _ in range(recorded):
        training.step()
    for block in before:  # they have no frames
        if block.state == "active_allocated" and block not in training.gradients:
            block.frames = []
    return allocator, training


def snapshot(*allocators, **more):
    traces = [[] for _ in range(max(a.device for a in allocators) + 1)]
    for a in allocators:
        traces[a.device] = a.trace
    expandable = any(a.expandable for a in allocators)
    return {"segments": [s for a in allocators for s in a.segment_dicts()],
            "device_traces": traces,
            "allocator_settings": {
                "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True" if expandable else "",
                "max_split_size": -1, "garbage_collection_threshold": 0.0,
                "expandable_segments": expandable, "pinned_num_register_threads": 1,
                "release_lock_on_cudamalloc": False, "pinned_use_cuda_host_register": False,
                "roundup_power2_divisions": {str(1 << i): 0 for i in range(16)}},
            "external_annotations": [], **more}


def as_torch_2_0(data):
    """Blocks have a history instead of frames; no addresses, no times."""
    for s in data["segments"]:
        del s["is_expandable"], s["frames"]
        for b in s["blocks"]:
            address, frames = b.pop("address"), b.pop("frames")
            if b["state"] == "active_allocated":
                b["history"] = [{"addr": address, "real_size": b.pop("requested_size"),
                                 "frames": frames}]
            else:
                b.pop("requested_size")
    for trace in data["device_traces"]:
        for e in trace:
            for key in ("time_us", "compile_context", "user_metadata"):
                del e[key]
    return {"segments": data["segments"], "device_traces": data["device_traces"]}


def train(steps=4, **options):
    keys = ("expandable", "capacity", "device", "base")
    allocator = Allocator(**{k: options.pop(k) for k in keys if k in options})
    training = Training(allocator, **options)
    training.build()
    for _ in range(steps):
        training.step()
    return allocator, training


def main(folder):
    expected = {}

    def write(name, data, allocator=None, training=None, protocol=4, **more):
        data = pickle.dumps(data, protocol)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(gzip.compress(data, mtime=0))
        if allocator:
            expected[name] = {"peak_allocated": allocator.peak_allocated,
                              "peak_reserved": allocator.peak_reserved,
                              "ended_allocated": allocator.allocated,
                              "ended_reserved": allocator.reserved, **more}
            if training:
                expected[name]["at_peak"] = {k: v for k, v in training.at_peak.items() if v}

    a, t = train()
    write("train.pickle.gz", snapshot(a), a, t)
    for protocol in (0, 1, 2, 3, 5):
        write(f"protocol_{protocol}.pickle.gz", snapshot(*[train(1, layers=2)[0]]), protocol=protocol)
    a, t = train()
    write("torch_2_0.pickle.gz", as_torch_2_0(snapshot(a)), a, t)
    a, t = train(frames=False, steps=6)
    write("no_frames.pickle.gz", snapshot(a), a, t)
    a, t = train(expandable=True)
    write("expandable.pickle.gz", snapshot(a), a, t)

    a, t = late(Training, 3)
    write("late.pickle.gz", snapshot(a), a, t)
    a, t = late(Frozen, 3)
    write("frozen_late.pickle.gz", snapshot(a), a, t)
    a, t = late(Distributed, 3)
    write("distributed_late.pickle.gz", snapshot(a), a, t)
    a, t = late(OwnOptimizer, 1)
    write("own_optimizer_late.pickle.gz", snapshot(a), a, t)
    allocator = Allocator()
    training = Distributed(allocator)
    training.build()
    for _ in range(4):
        training.step()
    write("distributed.pickle.gz", snapshot(allocator), allocator, training)
    allocator = Allocator()
    training = Annotated(allocator)
    training.build()
    for _ in range(3):
        training.step()
    write("annotated.pickle.gz", snapshot(allocator, external_annotations=training.annotations), allocator)
    allocator = Allocator()
    training = Frozen(allocator)
    training.build()
    for _ in range(4):
        training.step()
    write("frozen.pickle.gz", snapshot(allocator), allocator, training)

    # The ring buffer kept the last events only: it begins in the middle of a step.
    a, t = train(steps=5)
    del a.trace[:len(a.trace) * 3 // 5 + 13]
    write("wrapped.pickle.gz", snapshot(a), a, t)

    # Two devices; the second has the higher peak.
    a, t = train(layers=2)
    b, u = train(layers=5, device=1, base=0x7E0000000000)
    write("two_devices.pickle.gz", snapshot(a, b), b, u, first_peak=a.peak_allocated)

    # A free that waits for another stream, and memory of a stream of its own.
    a = Allocator()
    kept = a.alloc(5 * MIB, MAIN)
    side = a.alloc(3 * MIB, MAIN, stream=0x5555)
    a.free(kept, MAIN, pending=True)
    other = a.alloc(4 * MIB, MAIN)
    a.complete(kept, MAIN)
    write("streams.pickle.gz", snapshot(a), a)

    # Out of memory at 64 MiB: half of every segment is held by a small tensor of a loop.
    a = Allocator(capacity=64 * MIB)
    pairs = [(a.alloc(9 * MIB, LAYER), a.alloc(MIB + 512 * 1024, BATCH)) for _ in range(3)]
    for big, _ in pairs:
        a.free(big, LAYER)
    try:
        a.alloc(25 * MIB, LOSS)
    except MemoryError:
        pass
    write("oom.pickle.gz", snapshot(a), a)
    assert side and other

    with open(os.path.join(folder, "expected.json"), "w") as file:
        json.dump(expected, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))
