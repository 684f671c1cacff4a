"""As torchtitan_peaks.py, with `compile.enable`: each of TorchTitan's own blocks is compiled with its checkpoint, then
sharded, and the loss is compiled too; with torchao's Float8Linear where its converter makes it.

    ac-advisor dryrun [--world N] [--rank R] --output /dev/null -- python torchtitan_compile_peaks.py torchtitan_compile_peaks.json

Drawn before the plan had such blocks. `--list` prints the worlds and ranks that there are.
"""

import random
import sys

import torch
import torch._inductor.config

import compile_peaks  # how Inductor is set
import torchtitan_peaks
from torchtitan_cases import VALUES, distinct, shape

MODELS = ("llama31_8b_4layers", "qwen3_8b_4layers", "smollm17b_untied_4layers", "qwen3_17b_5layers", "qwen3_06b_6layers")
UNTIED = tuple(m for m in MODELS if not VALUES[m]["tie_word_embeddings"])
WORLDS = [{"world": 8}] * 6 + [{"world": 8, "shard": "hsdp:4"}] * 2 + [{}] * 4 + [{"world": 8, "tp": 2}] * 2 + [
    {"world": 8, "tp": 4}] * 2 + [{"world": 4, "pp": 2, "pp_rank": rank} for rank in (0, 1)] * 2
PRECISIONS = [{"fp8": "tensorwise"}, {"fp8": "tensorwise", "fp8_all_gather": True}, {"fp8": "rowwise"}]


def drawn():
    draw = random.Random("TorchTitan's compiled blocks")
    for world in WORLDS + [{"world": 8, "shard": "ddp"}]:
        in_parts = "tp" in world or "pp" in world
        model = draw.choice(UNTIED if in_parts else MODELS)
        batch, seq = draw.choice(((1, 4096), (2, 2048)) if in_parts else ((1, 4096), (2, 2048), (3, 1000), (1, 8192)))
        ac = draw.choice(("none", "selective", "full")) if in_parts else draw.choice(
            ("none", "selective", "full", "every:2"))
        if "pp" in world:
            accum = {"grad_accum": 4}
        else:
            accum = {"grad_accum": 2} if draw.random() < 0.2 else {}
        if world.get("shard") == "ddp":
            ac = "full"  # elsewhere Dynamo splits graphs where buckets end
        yield shape(model, batch=batch, seq=seq, ac=ac, kernels="compiled", **world, **accum)
    for fp8 in PRECISIONS * 2:
        model = draw.choice(UNTIED)
        ac = draw.choice(("none", "selective", "full"))
        yield shape(model, ac=ac, kernels="compiled", world=8, **fp8)


def in_sequences():
    draw = random.Random("TorchTitan's compiled blocks in a ring")
    worlds = [{"world": 4, "cp": 2, "cp_rank": rank} for rank in (0, 1)] * 3 + [
        {"world": 4, "cp": 4, "cp_rank": rank} for rank in (0, 2)] * 2 + [
        {"world": 8, "cp": 2, "cp_rank": rank} for rank in (0, 1)] * 2 + [
        {"world": 8, "cp": 2, "tp": 2, "cp_rank": rank} for rank in (0, 1)] * 2 + [
        {"world": 8, "cp": 2, "cp_rank": 0, "shard": "hsdp:4"}] * 2 + [{"world": 2, "cp": 2, "cp_rank": 0}] * 2
    for world in worlds:
        model = draw.choice(UNTIED if "tp" in world else MODELS)
        batch, seq = draw.choice(((1, 8192), (2, 4096), (1, 4096)))
        ac = draw.choice(("none", "selective", "full"))
        yield shape(model, batch=batch, seq=seq, ac=ac, kernels="compiled", **world)


def cases():
    return distinct((*drawn(), *in_sequences()))


def measure(entry):
    torch._dynamo.reset()
    torch._inductor.config.emulate_precision_casts = False  # which the rowwise recipe sets, for its process
    return torchtitan_peaks.measure(entry)


if __name__ == "__main__":
    sys.exit(torchtitan_peaks.main(list(cases()), measure, __doc__))
