"""Peaks and launches of TorchTitan 0.2.2's own mixtures of experts in tensor parallelism, on the emulated device.

    ac-advisor dryrun --world N --rank R --output /dev/null -- python torchtitan_experts_tp_peaks.py OUTPUT.json

As torchtitan_peaks.py, of steps that a seeded generator draws: its TensorParallel of experts (distributed/expert_parallel.py,
models/llama4/infra/parallelize.py, apply_moe_ep_tp).
"""

import random
import sys

import torchtitan_peaks
from torchtitan_cases import shape

MODELS = ("qwen3_moe_64_experts_3layers", "qwen3_moe_16_experts_4layers", "qwen3_moe_24_experts_3layers",
          "qwen3_moe_30b_2layers")


def cases():
    draw = random.Random("TorchTitan's experts in parts")
    for number in range(12):
        model = MODELS[number % len(MODELS)]
        tp = 2 if model == "qwen3_moe_24_experts_3layers" else draw.choice((2, 2, 4))
        batch, seq = draw.choice(((1, 2048), (1, 4096), (2, 1024), (2, 2048)))
        more = {"world": 8, "tp": tp}
        if draw.random() < 0.25:
            more["shard"] = "hsdp:2"
        if draw.random() < 0.25:
            more["grad_accum"] = 2
        if draw.random() < 0.2:
            more["loss_parallel"] = False
        yield shape(model, batch=batch, seq=seq, ac=draw.choice(("none", "selective", "full")), **more)


if __name__ == "__main__":
    sys.exit(torchtitan_peaks.main(list(cases()), torchtitan_peaks.measure, __doc__))
