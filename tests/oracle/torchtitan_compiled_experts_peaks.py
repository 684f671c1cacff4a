"""As torchtitan_compile_peaks.py, of TorchTitan 0.2.2's mixtures of experts, whose blocks it compiles part by part
(models/llama4/infra/parallelize.py: apply_compile).

    ac-advisor dryrun [--world N] [--rank R] --output /dev/null -- python torchtitan_compiled_experts_peaks.py OUTPUT.json

Drawn before the plan had such parts. `--list` prints the worlds and ranks that there are.
"""

import random
import sys

import torchtitan_peaks
from torchtitan_cases import distinct, shape
from torchtitan_compile_peaks import measure

MODELS = ("qwen3_moe_64_experts_3layers", "qwen3_moe_16_experts_4layers", "qwen3_moe_24_experts_3layers",
          "qwen3_moe_30b_2layers")
WORLDS = [{"world": 8}] * 7 + [{"world": 8, "shard": "hsdp:4"}] * 2 + [{"world": 2}] * 3 + [{"world": 8, "tp": 2}] * 3 + [
    {"world": 4, "pp": 2, "pp_rank": rank} for rank in (0, 1)] + [{"world": 4, "cp": 2, "cp_rank": 0}] * 2


def drawn():
    draw = random.Random("TorchTitan's experts, compiled in parts")
    for number, world in enumerate(WORLDS):
        model = MODELS[number % len(MODELS)]
        batch, seq = draw.choice(((1, 4096), (2, 2048), (3, 1000), (1, 2048), (2, 1024)))
        ac = draw.choice(("none", "selective", "full", "every:2"))
        if "tp" in world or "pp" in world or "cp" in world:
            batch, seq = 1, draw.choice((2048, 4096))
            ac = draw.choice(("none", "selective", "full"))
        accum = {"grad_accum": 2} if draw.random() < 0.2 else {}
        if "pp" in world:
            accum = {"grad_accum": 4}
        yield shape(model, batch=batch, seq=seq, ac=ac, kernels="compiled", **world, **accum)


def drawn_beside():
    """In FP8, in a ring with checkpoints, in parts of layers with replicas, with flash attention."""
    draw = random.Random("TorchTitan's compiled experts beside other options")
    modes = ["none", "selective", "full"]
    for world in ({"world": 8, "fp8": "tensorwise"}, {"world": 4, "cp": 2, "cp_rank": 0}):
        draw.shuffle(modes)
        for ac in modes:
            yield shape(draw.choice(MODELS[:3]), seq=draw.choice((2048, 4096)), ac=ac, kernels="compiled", **world)
    for world in ({"world": 8, "tp": 2, "shard": "hsdp:2"}, {"world": 8, "attn": "flash"}):
        yield shape(draw.choice(MODELS[:2]), seq=2048, ac=draw.choice(modes), kernels="compiled", **world)


def cases():
    return distinct((*drawn(), *drawn_beside()))


if __name__ == "__main__":
    sys.exit(torchtitan_peaks.main(list(cases()), measure, __doc__))
