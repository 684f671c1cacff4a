"""Steps that a seeded generator puts together of what was compared apart: adapters, compiled blocks, FP8, packed rows,
offloading, losses, optimizers, layouts and families, three to six of them at once. Each is planned and graded
(docs/evidence.md) before it is run; graded_peaks.py runs them.

    python graded_cases.py PROGRAM ../evidence/draws.json SEED COMPOSED EXTRAPOLATED    # appends so many of each grade

Seed 20261126 drew the first 420 by `draw` (DDP's gradients beside their buckets were said later). Seed 20261127 drew those
after them by `draw_wide`: more families, layouts, lengths, adapters, optimizers and precisions.
"""

import json
import random
import subprocess
import sys
import tempfile

from blind_finetune_cases import ATTENTION, EXPERTS, LLAMAS, NAMES, NEW, OLD, size
from drawn_finetune_cases import AUTOCAST, IN_FP16
from emulated_cases import EAGER_ONLY, EXPANDABLE, MASKED, UNEQUAL_HEADS, case, config_of

FIRST_SEED = 20261126
MODELS = LLAMAS + LLAMAS + NEW + OLD + EXPERTS[:4]
LAYOUTS = ({}, {}, {}, {"shard": "ddp", "world": 2, "gradient_as_bucket_view": False}, {"shard": "fsdp2", "world": 2}, {"shard": "fsdp2", "world": 2})
MORE = (
    {"lora": 16, "lora_targets": "all-linear"}, {"lora": 8, "lora_targets": ATTENTION},
    {"lora": 16, "lora_targets": ATTENTION, "dora": True}, {"lora": 8, "lora_targets": "all-linear", "quantize": "nf4"},
    {"lora": 8, "lora_targets": ATTENTION, "quantize": "int8"}, {"lora": 8, "lora_targets": ATTENTION, "lora_dtype": "bf16"},
    {"adapter": "ia3"}, {"adapter": "loha:8"}, {"adapter": "vera:64"}, {"kernels": "compiled", "attn": "cudnn"},
    {"kernels": "compiled", "attn": "cudnn"}, {"fp8": "tensorwise"}, {"fp8": "rowwise"}, {"packing": 4, "attn": "flash"},
    {"packing": 3}, {"loss": "ce-no-upcast"}, {"optimizer": "sgd"}, {"optimizer": "adamw-foreach"},
    {"optimizer": "adamw-8bit"}, {"optimizer": "lion"}, {"offload": "activations"}, {"clip_grad": 1.0}, {"grad_accum": 2},
    {"hold_output": False}, AUTOCAST, {"ema": True}, {"attn": "eager"})
# What the scripts that run such a step read of its options, beside model, sizes and checkpoints.
READ = {"kernels": {"gradient_as_bucket_view", "attn", "lora", "lora_targets", "lora_dtype", "shard", "world", "grad_accum", "hold_output"},
        "fp8": {"gradient_as_bucket_view", "shard", "world", "optimizer", "clip_grad", "grad_accum", "hold_output", "autocast", "param_dtype", "ema",
                "offload", "attn", "loss"},
        "adapter": {"optimizer", "clip_grad", "grad_accum", "hold_output", "autocast", "param_dtype", "offload", "attn", "loss"}}
ALWAYS = {"model", "batch", "seq", "ac", "loss"}

# The second generator's, beside the first's.
WIDE_MODELS = MODELS + EXPERTS[4:] + ("stablelm2_16b_4layers", "gemma2_2b_4layers", "gpt_oss_20b_2layers",
    "moonlight_16b_3layers", "deepseek_v2_lite_3layers", "llama4_in_turn_8_experts_4layers")
DDP, FSDP2 = {"shard": "ddp", "world": 2, "gradient_as_bucket_view": False}, {"shard": "fsdp2", "world": 2}
MIXED = {"param_dtype": "fp32", "compute_dtype": "bf16", "reduce_dtype": "fp32"}
WIDE_LAYOUTS = ({}, {}, {}, {}, DDP, DDP, DDP | {"world": 4}, {"shard": "ddp", "world": 4, "gradient_as_bucket_view": True},
                FSDP2, FSDP2, FSDP2 | {"world": 4}, FSDP2 | {"world": 4} | MIXED, FSDP2 | {"keep_last_block": True},
                FSDP2 | {"reshard_after_forward": "false"}, {"shard": "hsdp:2", "world": 4})
WIDE_SIZES = ((1, 777), (1, 1500), (1, 4096), (2, 333), (2, 2048), (3, 999), (4, 1024), (6, 600))
WIDE_MORE = MORE + (
    {"lora": 32, "lora_targets": "all-linear", "lora_dropout": 0.1},
    {"lora": 8, "lora_targets": ATTENTION, "quantize": "nf4-double"},
    {"lora": 64, "lora_targets": "all-linear", "quantize": "int8", "lora_dtype": "bf16"},
    {"lora": 16, "lora_targets": ATTENTION, "quantize": "nf4", "kbit_prepare": True},
    {"lora": 4, "lora_targets": "all-linear", "dora": True, "lora_dropout": 0.05},
    {"adapter": "lokr:16"}, {"adapter": "miss:32"}, {"adapter": "oft:32", "lora_targets": ATTENTION}, {"adapter": "road:1"},
    {"adapter": "delora:16"}, {"adapter": "prompt-tuning:16"}, {"adapter": "ln-tuning"}, {"adapter": "trainable-tokens:32"},
    {"kernels": "compiled", "attn": "cudnn", "ac": "memory-budget:0.5"}, {"kernels": "compiled", "attn": "flash"},
    {"packing": 2, "attn": "flash"}, {"packing": 5}, {"attn": "flash"}, {"attn": "flash"}, {"optimizer": "sgd-momentum"},
    {"optimizer": "paged-adamw"}, {"optimizer": "paged-adamw-8bit"}, {"optimizer": "adafactor"}, {"output_dtype": "fp32"},
    {"offload": "optimizer"}, {"offload": "gradients"}, {"grad_accum": 3}, {"grad_accum": 2, "no_sync": True},
    {"clip_grad": 1.0}, EXPANDABLE, IN_FP16)
# What the scripts read of the second generator's options, too.
WIDE_READ = {
    "kernels": {"optimizer", "autocast", "param_dtype", "compute_dtype", "reduce_dtype", "alloc_conf", "no_sync",
                "keep_last_block", "reshard_after_forward"},
    "fp8": {"compute_dtype", "reduce_dtype", "alloc_conf", "no_sync", "keep_last_block", "reshard_after_forward",
            "grad_scaler"},
    "adapter": {"lora_targets", "alloc_conf", "grad_scaler"}}
NO_SEGMENTS = ("gemma", "olmo3", "gpt_oss", "cohere2", "llama4", "gptj", "gpt2", "bloom", "falcon")
NO_LINEAR = ("ln-tuning", "prompt-tuning", "trainable-tokens")
MODES = ("none", "full", "selective", "every:3", "grouped:2")


def settled(entry):
    """With the model's own names of its projections, and what Liger's adapters need."""
    if entry.get("lora_targets") == ATTENTION:
        entry["lora_targets"] = NAMES.get(entry["model"], ATTENTION)
    if entry.get("kernels") and entry.get("lora"):
        entry["input_require_grads"] = "off" if entry["ac"] == "none" else "on"
    return entry


def draw(rng):
    model = rng.choice(MODELS)
    entry = case(model, *size(rng, 16), rng.choice(MODES)) | rng.choice(LAYOUTS)
    for more in rng.sample(MORE, rng.randint(2, 5)):
        entry |= more
    return settled(entry)


def draw_wide(rng):
    model = rng.choice(WIDE_MODELS)
    sizes = size(rng, 16) if rng.random() < 0.5 else rng.choice(WIDE_SIZES)
    entry = case(model, *sizes, rng.choice(MODES)) | rng.choice(WIDE_LAYOUTS)
    for more in rng.sample(WIDE_MORE, rng.randint(2, 5)):
        entry |= more
    if entry.get("adapter", "").startswith(NO_LINEAR):
        entry.pop("lora_targets", None)
    if entry.get("shard") != "ddp":
        entry.pop("gradient_as_bucket_view", None)
    if entry.get("no_sync") and (entry["grad_accum"] == 1 or entry.get("shard", "none") == "none"):
        del entry["no_sync"]
    return settled(entry)


def can_run_wide(entry):
    """What the scripts of the second generator's options ask for, or have no words of."""
    of = entry.get
    sharded = of("shard", "none").startswith(("fsdp2", "hsdp"))
    for key, read in READ.items():
        if key in entry and set(entry) - ALWAYS - {key, "input_require_grads"} - read - WIDE_READ[key]:
            return False
    if of("kernels") and of("optimizer", "adamw") not in ("adamw", "sgd", "adamw-foreach"):
        return False
    if of("lora") and of("adapter"):
        return False
    if sharded and (of("autocast") or of("quantize") == "int8" or of("kbit_prepare")):
        return False
    # peft_peaks.py shards what is in bf16, by FSDP2.
    if of("lora") and (of("compute_dtype") or of("shard", "none").startswith("hsdp")):
        return False
    if of("compute_dtype") and (of("param_dtype") != "fp32" or not sharded):
        return False
    if of("grad_scaler") and of("autocast") != "fp16" or of("offload", "none") in ("optimizer", "gradients") and of("optimizer"):
        return False
    # The wrapper of outputs in fp32 is drawn_finetune_peaks.py's alone.
    if of("output_dtype") and (of("fp8") or of("kernels") or of("adapter")):
        return False
    return not (entry["ac"].startswith("memory-budget") and not of("kernels"))


def can_run(entry):
    """Whether the script that runs it reads all of its options."""
    family = config_of(entry["model"])["model_type"]
    # transformers' blocks of these take what Segment does not hand on, or are told their numbers.
    if entry["ac"].startswith("grouped") and family.startswith(NO_SEGMENTS):
        return False
    # What the scripts run of these is another kernel.
    if entry.get("attn") in ("flash", "cudnn") and not entry.get("packing") and family in EAGER_ONLY + MASKED + UNEQUAL_HEADS:
        return False
    if not can_run_wide(entry):
        return False
    # adapter_step.py quantizes nn.Linear; transformers gpt2's Conv1D too.
    if entry.get("quantize") and entry["model"].startswith("gpt2"):
        return False
    # Their scripts call the model's own loss.
    own_loss = any(entry.get(key) for key in READ)
    return not (own_loss and entry["loss"] != "ce")


def words(entry):
    for key, value in entry.items():
        if key == "model" or key == "gradient_as_bucket_view" and not value:  # what is planned without a word is PyTorch's default
            continue
        name = "--" + key.replace("_", "-")
        if value is True or value is False:
            yield name if value else "--no-" + name[2:]
        else:
            yield from (name, str(value))


def planned(program, entry):
    """The plan as JSON, of the scripts' loop, which lets go of an output after backward; None: it is refused."""
    kbit = ["--no-ac-reentrant"] if "kbit_prepare" in entry else []  # as the script checkpoints
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config_of(entry["model"]), file)
        file.flush()
        ended = subprocess.run([program, "plan", file.name, "--gpu", "h100-80gb", *words(entry), *kbit,
                                "--held-until", "backward", "--format", "json"],
                               capture_output=True, text=True)
    return json.loads(ended.stdout) if ended.returncode == 0 else None


def main():
    program, path, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(path) as file:
        draws = json.load(file)["draws"]
    seen = {json.dumps(one["case"], sort_keys=True) for one in draws}
    rng, left = random.Random(seed), {"composed": int(sys.argv[4]), "extrapolated": int(sys.argv[5])}
    while any(left.values()):
        entry = (draw if seed == FIRST_SEED else draw_wide)(rng)
        profile = planned(program, entry) if can_run(entry) else None
        if profile is None or json.dumps(entry, sort_keys=True) in seen:
            continue
        evidence = profile["evidence"]
        if left.get(evidence["grade"], 0) == 0:
            continue
        left[evidence["grade"]] -= 1
        seen.add(json.dumps(entry, sort_keys=True))
        memory = profile["memory"]
        draws.append({"case": entry, "grade": evidence["grade"], "unseen": evidence["unseen"],
                      "planned": {"allocated": memory["peak_allocated_bytes"], "reserved": memory["peak_reserved_bytes"],
                                  "launches": sum(profile["kernels"]["launches"].values())}})
    write(path, draws)


def write(path, draws):
    with open(path, "w") as file:
        file.write('{"draws": [\n' + ",\n".join(json.dumps(one) for one in draws) + "\n]}\n")


if __name__ == "__main__":
    main()
