"""Steps that a seeded generator draws, of a loop that holds its output through the next forward (--held-until
next-forward, as a plain loop does) beside what such a loop was seldom measured with: ranks that share layers, sequences or
experts, packed rows, FSDP's first version and what FSDP2 keeps gathered, ZeRO, adapters, compiled blocks, FP8; and
steps that graded_cases.py's second generator draws of all options. next_forward_peaks.py runs them; their figures were
written down before any step was planned for.

    python next_forward_cases.py PROGRAM    # the draw, as it is planned and graded by PROGRAM
"""

import random
import sys

import graded_cases
from emulated_cases import EXPANDABLE, case, config_of

SEED, EACH, WIDE = 20261128, 4, 72
SIZES = ((1, 512), (1, 1536), (1, 2048), (2, 512), (2, 1024), (3, 768), (4, 512), (2, 2048))
MODES = ("none", "none", "full", "full", "selective", "every:2")
NEXT = {"held_until": "next-forward"}
MODELS = ("llama1b_4layers", "qwen2_05b_4layers", "qwen3_06b_4layers", "mistral7b_4layers", "smollm17b_untied_4layers")
WIDER = MODELS + ("smollm3_3b_4layers", "granite31_8b_4layers", "olmo2_7b_4layers", "gemma_7b_4layers", "phi3_mini_4layers")
AUTOCAST = {"param_dtype": "fp32", "autocast": "bf16"}
MIXED = {"param_dtype": "fp32", "compute_dtype": "bf16", "reduce_dtype": "fp32"}
ATTENTION = {"lora_targets": "q_proj,v_proj"}
ALL = {"lora_targets": "all-linear"}
FSDP2 = {"shard": "fsdp2", "world": 4}
DDP = {"shard": "ddp", "world": 2, "gradient_as_bucket_view": False}
LOOP = ({}, {"grad_accum": 2}, {"grad_accum": 3}, {"hold_output": False}, EXPANDABLE)
# Of each: models, what makes it so, and what may be beside it.
KINDS = {
    "cp": (MODELS, ({"cp": 2, "cp_rank": 0, "world": 2, "shard": "fsdp2"}, {"cp": 2, "cp_rank": 1, "world": 2, "shard": "fsdp2"},
                    {"cp": 2, "cp_rank": 0, "world": 4, "shard": "fsdp2"}),
           ({"attn": "flash"}, {"cp_method": "alltoall"}, MIXED)),
    "tp": (MODELS, ({"tp": 2, "world": 2}, {"tp": 2, "world": 4, "shard": "fsdp2"}),
           ({"loss_parallel": False}, {"attn": "flash"})),
    "packing": (WIDER, ({"packing": 4, "attn": "flash"}, {"packing": 3}, {"packing": 2, "attn": "flash"} | FSDP2),
                ({"lora": 16} | ATTENTION, {"optimizer": "adamw-foreach"}, {"clip_grad": 1.0})),
    "fsdp1": (WIDER, ({"shard": "fsdp1", "world": 2}, {"shard": "fsdp1", "world": 4}),
              (MIXED | {"reduce_dtype": "bf16"}, {"clip_grad": 1.0}, {"grad_accum": 2, "no_sync": True})),
    "resharding": (WIDER, (FSDP2 | {"reshard_after_forward": "false"}, FSDP2 | {"keep_last_block": True},
                           FSDP2 | {"fsdp_unit": "torchtitan"}, {"shard": "hsdp:2", "world": 4}),
                   (MIXED, {"clip_grad": 1.0}, {"grad_accum": 2, "no_sync": True})),
    "zero": (MODELS, ({"shard": "zero1", "world": 2}, {"shard": "zero2", "world": 2}, {"shard": "zero2", "world": 4},
                      {"shard": "zero3", "world": 2}, {"shard": "zero3", "world": 4}),
             ({"clip_grad": 1.0}, {"grad_accum": 2})),
    "lora": (WIDER, ({"lora": 16} | ALL, {"lora": 8} | ATTENTION, {"lora": 8, "quantize": "nf4"} | ALL,
                     {"lora": 16} | ALL | FSDP2, {"lora": 16} | ATTENTION | DDP),
             (AUTOCAST, {"lora_dtype": "bf16"}, {"dora": True}, {"optimizer": "adamw-8bit"})),
    "methods": (MODELS, ({"adapter": "ia3"}, {"adapter": "vera:64"} | ATTENTION, {"adapter": "oft:32"} | ATTENTION,
                         {"adapter": "prompt-tuning:16"}),
                ({"clip_grad": 1.0},)),
    "compiled": (MODELS, ({"kernels": "compiled", "attn": "cudnn"}, {"kernels": "compiled", "attn": "cudnn"} | FSDP2), (AUTOCAST,)),
    "fp8": (MODELS, ({"fp8": "tensorwise"}, {"fp8": "rowwise"}, {"fp8": "tensorwise"} | FSDP2), ({"clip_grad": 1.0},)),
    "precision": (WIDER, (AUTOCAST, MIXED | FSDP2, {"param_dtype": "fp32", "compute_dtype": "fp32", "reduce_dtype": "fp32"}),
                  ({"clip_grad": 1.0}, {"ema": True}, {"attn": "eager"})),
    "experts": (("qwen3_30b_a3b_4layers", "olmoe_1b_7b_4layers"), ({"ep": 2, "world": 4, "shard": "fsdp2"},), ({},)),
    "kept": (WIDER, (FSDP2 | {"keep_last_block": True}, FSDP2 | {"fsdp_unit": "torchtitan"},
                     {"shard": "ddp", "world": 2, "gradient_as_bucket_view": True}), ({"clip_grad": 1.0},)),
    "more methods": (MODELS, ({"adapter": "adalora:12"} | ATTENTION, {"adapter": "ln-tuning"}, {"adapter": "loha:8"},
                              {"adapter": "miss:32"}, {"adapter": "p-tuning:16"}, {"adapter": "trainable-tokens:32"}),
                     ({"clip_grad": 1.0},)),
    "bits": (MODELS, ({"lora": 8, "quantize": "nf4-double"} | ALL, {"lora": 16, "quantize": "nf4", "kbit_prepare": True} | ALL,
                      {"lora": 8, "quantize": "int8"} | ATTENTION), (AUTOCAST | {"param_dtype": "bf16"},)),
}


def can_run(kind, entry):
    """What the script of its kind reads, and a library takes."""
    tokens = entry["batch"] * entry["seq"]
    if kind == "fp8" and tokens % 16:
        return False
    if kind == "cp" and entry["seq"] % (2 * entry["cp"]):
        return False
    if entry.get("shard", "none").startswith(("fsdp2", "hsdp")) and (entry.get("autocast") or entry.get("quantize")):
        return False
    # DeepSpeed casts what is trained; ZeRO's script has transformers' checkpoints of every block alone.
    if kind == "zero" and (entry["ac"] not in ("none", "full") or entry.get("alloc_conf") or entry.get("hold_output") is False):
        return False
    if kind in ("compiled", "methods", "more methods") and entry.get("alloc_conf"):
        return False
    if entry.get("lora") and entry.get("shard") == "fsdp2" and (entry.get("optimizer") or entry.get("packing")):
        return False
    return not (kind == "resharding" and entry.get("no_sync") and entry.get("grad_accum", 1) == 1)


def draw(rng, kind):
    models, ways, beside = KINDS[kind]
    entry = case(rng.choice(models), *rng.choice(SIZES), rng.choice(MODES)) | NEXT | rng.choice(ways)
    entry |= rng.choice(LOOP)
    if rng.random() < 0.5:
        entry |= rng.choice(beside)
    if kind == "compiled" and entry.get("lora"):
        entry["input_require_grads"] = "off" if entry["ac"] == "none" else "on"
    return entry


def next_forward_cases():
    rng, drawn = random.Random(SEED), []
    for count, kind in enumerate(KINDS, 1):
        while len(drawn) < count * EACH:
            entry = draw(rng, kind)
            if can_run(kind, entry) and entry not in drawn:
                drawn.append(entry)
    return drawn + wide()


def wide():
    rng, drawn = random.Random(SEED + 1), []
    while len(drawn) < WIDE:
        entry = graded_cases.draw_wide(rng)
        if graded_cases.can_run(entry) and entry not in drawn:
            drawn.append(entry)
    return [entry | NEXT for entry in drawn]


def main():
    import json
    import subprocess
    import tempfile

    for entry in next_forward_cases():
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(config_of(entry["model"]), file)
            file.flush()
            ended = subprocess.run([sys.argv[1], "plan", file.name, "--gpu", "h100-80gb", *graded_cases.words(entry), "--format", "json"],
                                   capture_output=True, text=True)
        grade = ended.stderr.strip().splitlines()[-1] if ended.returncode else json.loads(ended.stdout)["evidence"]
        print(entry["model"], *graded_cases.words(entry), grade)


if __name__ == "__main__":
    main()
