"""What PyTorch's memory-efficient attention keeps and needs as scratch, in bytes that were asked for.

    ac-advisor dryrun --gpu GPU --output /dev/null -- python efficient_scratch.py GPU efficient_scratch.json

Puts the GPU's cases into the file beside those of others.
"""

import json
import os
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
SIZES = ((2, 8, 512), (1, 4, 2048), (2, 32, 1000), (9, 32, 100))


def asked_for(which):
    return torch.cuda.memory_stats()[f"requested_bytes.all.{which}"]


def measure(dtype, dim, batch, heads, seq):
    shape = (batch, seq, heads, dim)
    q, k, v, g = (torch.empty(shape, device="cuda", dtype=DTYPES[dtype]).transpose(1, 2) for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_()
    before = asked_for("current")
    torch.cuda.reset_peak_memory_stats()
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION]):
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    after = asked_for("current")
    forward = asked_for("peak") - after
    kept = after - before - y.nbytes
    torch.cuda.reset_peak_memory_stats()
    y.backward(g)
    gradients = sum(x.grad.nbytes for x in (q, k, v))
    return {"dtype": dtype, "dim": dim, "batch": batch, "heads": heads, "seq": seq, "kept": kept, "forward": forward,
            "backward": asked_for("peak") - after - gradients}


def main():
    gpu, output = sys.argv[1:]
    done = {}
    if os.path.exists(output):
        with open(output) as file:
            done = json.load(file)
    done[gpu] = [measure(dtype, dim, *size) for dtype in DTYPES for dim in (16, 32, 64, 80, 96, 128, 256) for size in SIZES]
    with open(output, "w") as file:
        lines = [f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, cases)) + "\n]" for name, cases in done.items()]
        file.write("{" + ", ".join(lines) + "}\n")


if __name__ == "__main__":
    main()
