#!/usr/bin/env python3
"""Writes a trace as torch.profiler does, as large as asked for, and reads it with ac-advisor.

    bench/make_trace.py 2.0 trace.json                 # gigabytes
    bench/make_trace.py 2.0 trace.json build/release/ac-advisor

A checkpointed transformer of 32 blocks, a step after another: ops with their shapes, Python frames
and modules, launches with their arrows, kernels with what CUPTI tells of them. With a program, prints
its time and peak memory, and whether it found the steps and kernels that were written.
"""
import json
import resource
import subprocess
import sys
import time

BLOCKS = 32
OPS = [("aten::mm", "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT", 180),
       ("aten::silu", "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous "
        "namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}, std::array<char*, 2ul> >(int, "
        "at::native::(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}, "
        "std::array<char*, 2ul>)", 22),
       ("aten::_flash_attention_forward", "void pytorch_flash::flash_fwd_kernel<pytorch_flash::"
        "Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t> >(pytorch_flash::"
        "Flash_fwd_params)", 240)]

OP = ('  {\n    "ph": "X", "cat": "cpu_op", "name": "%s", "pid": 100, "tid": %d,\n    "ts": %.3f, "dur": '
      '%.3f,\n    "args": {\n      "External id": %d,"Record function id": 0, %s"Ev Idx": %d, "Input '
      'Dims": [[8, 2048, 4096], [4096, 4096], []], "Input type": ["c10::BFloat16", "c10::BFloat16", '
      '""], "Concrete Inputs": ["", "", "1"]\n    }\n  },\n')
PYTHON = ('  {\n    "ph": "X", "cat": "python_function", "name": "%s", "pid": 100, "tid": 100,\n    "ts": '
          '%.3f, "dur": %.3f,\n    "args": {\n      "Python parent id": %d, "Python id": %d, "Ev Idx": '
          '%d\n    }\n  },\n')
LAUNCH = ('  {\n    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100, "tid": %d,\n'
          '    "ts": %.3f, "dur": 4.250,\n    "args": {\n      "External id": %d, "cbid": 211, '
          '"correlation": %d\n    }\n  },\n  {\n    "ph": "s", "id": %d, "pid": 100, "tid": %d, "ts": '
          '%.3f,\n    "cat": "ac2g", "name": "ac2g"\n  },\n')
KERNEL = ('  {\n    "ph": "X", "cat": "kernel", "name": "%s", "pid": 0, "tid": 7,\n    "ts": %.3f, "dur": '
          '%.3f,\n    "args": {\n      "External id": %d, "queued": 0, "device": 0, "context": 1, '
          '"stream": 7, "correlation": %d, "registers per thread": 168, "shared memory": 213248, '
          '"blocks per SM": 0.969697, "warps per SM": 11.636364, "grid": [128, 1, 1], "block": [384, '
          '1, 1], "est. achieved occupancy %%": 18\n    }\n  },\n')


class Writer:
    def __init__(self, file):
        self.file, self.size, self.id, self.kernels = file, 0, 0, 0
        self.now = 1712195495505583.125
        self.sequence = 0

    def put(self, parts):
        text = "".join(parts)
        self.file.write(text)
        self.size += len(text)

    def work(self, parts, thread, op, kernel, duration, recorded):
        self.id += 1
        n, t = self.id, self.now
        sequence = f'"Sequence number": {self.sequence}, "Fwd thread id": 0, ' if recorded else ""
        self.sequence += recorded
        parts.append(OP % (op, thread, t, 20, n, sequence, n))
        parts.append(LAUNCH % (thread, t + 8, n, n, n, thread, t + 8))
        parts.append(KERNEL % (kernel, t + 30, duration, n, n))
        self.kernels += 1
        self.now += max(22, duration + 2)

    def block(self, parts, index, thread, frames):
        start, at = self.now, len(parts)
        for op, kernel, duration in OPS * 4:
            if frames:
                self.id += 1
                parts.append(PYTHON % ("torch/nn/modules/linear.py(130): forward", self.now - 1, 22,
                                       self.id - 1, self.id, self.id))
            self.work(parts, thread, op, kernel, duration, True)
        if frames:
            parts.insert(at, PYTHON % (f"nn.Module: Block_{index}", start - 2, self.now - start, 1, 2, 3))

    def step(self, number):
        start = self.now
        first = self.sequence
        for index in range(BLOCKS):
            parts = []
            self.block(parts, index, 100, True)
            self.put(parts)
        for index in reversed(range(BLOCKS)):
            parts = []
            trigger = first + (index + 1) * 12 - 1
            begin, at = self.now, len(parts)
            self.block(parts, index, 101, False)
            for op, kernel, duration in OPS * 8:
                self.work(parts, 101, op, kernel, duration, False)
            parts.insert(at, OP % ("autograd::engine::evaluate_function: MmBackward0", 101, begin - 1,
                                   self.now - begin, 0,
                                   f'"Sequence number": {trigger}, "Fwd thread id": 1, ', 0))
            self.put(parts)
        self.put(['  {\n    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#%d", "pid": 100, '
                  '"tid": 100,\n    "ts": %.3f, "dur": %.3f,\n    "args": {}\n  },\n'
                  % (number, start - 5, self.now - start + 4)])
        self.now += 100


def write(gigabytes, name):
    with open(name, "w", buffering=1 << 22) as file:
        file.write('{\n  "schemaVersion": 1,\n  "deviceProperties": [\n    {"id": 0, "name": "NVIDIA H100 '
                   '80GB HBM3", "totalGlobalMem": 85017624576}\n  ],\n  "traceEvents": [\n'
                   '  {"ph": "M", "name": "thread_name", "pid": 100, "tid": 101, "ts": 0, "args": '
                   '{"name": "thread 101 (pt_autograd_0)"}},\n')
        writer, steps = Writer(file), 0
        while writer.size < gigabytes * 1e9:
            steps += 1
            writer.step(steps)
        file.write('  {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "ts": 0, "args": '
                   '{"name": "python"}}\n  ],\n  "traceName": "trace.json"\n}\n')
    return steps, writer.kernels


def main():
    gigabytes, name = float(sys.argv[1]), sys.argv[2]
    steps, kernels = write(gigabytes, name)
    print(f"{name}: {gigabytes} GB, {steps} steps, {kernels} kernels")
    if len(sys.argv) < 4:
        return
    begin = time.monotonic()
    result = subprocess.run([sys.argv[3], "trace", name, "--format", "json"], check=True,
                            capture_output=True, text=True)
    seconds = time.monotonic() - begin
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{seconds:.1f} s ({usage.ru_utime + usage.ru_stime:.1f} s of CPU), "
          f"{usage.ru_maxrss / 1024:.0f} MiB")
    summary = json.loads(result.stdout)
    assert (summary["steps"], summary["kernels"]) == (steps, kernels), summary


main()
