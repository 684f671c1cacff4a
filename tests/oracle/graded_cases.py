"""Steps that a seeded generator puts together of what was compared apart: adapters, compiled blocks, FP8, packed rows,
offloading, losses, optimizers, layouts and families, three to six of them at once. Each is planned and graded
(docs/evidence.md) before it is run; graded_peaks.py runs them.

    python graded_cases.py PROGRAM ../evidence/draws.json SEED COUNT    # appends COUNT composed and COUNT extrapolated ones
"""

import json
import random
import subprocess
import sys
import tempfile

from blind_finetune_cases import ATTENTION, EXPERTS, LLAMAS, NAMES, NEW, OLD, size
from drawn_finetune_cases import AUTOCAST
from emulated_cases import case, config_of

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


MODES = ("none", "full", "selective", "every:3", "grouped:2")


def draw(rng):
    model = rng.choice(MODELS)
    entry = case(model, *size(rng, 16), rng.choice(MODES)) | rng.choice(LAYOUTS)
    for more in rng.sample(MORE, rng.randint(2, 5)):
        entry |= more
    if entry.get("lora_targets") == ATTENTION:
        entry["lora_targets"] = NAMES.get(model, ATTENTION)
    if entry.get("kernels") and entry.get("lora"):
        entry["input_require_grads"] = "off" if entry["ac"] == "none" else "on"
    return entry


def can_run(entry):
    """Whether the script that runs it reads all of its options."""
    for key, read in READ.items():
        if key in entry and set(entry) - ALWAYS - {key, "input_require_grads"} - read:
            return False
    # adapter_step.py quantizes nn.Linear; transformers gpt2's Conv1D too.
    if entry.get("quantize") and entry["model"].startswith("gpt2"):
        return False
    # Their scripts call the model's own loss.
    own_loss = any(entry.get(key) for key in READ)
    return not (own_loss and entry["loss"] != "ce")


def words(entry):
    for key, value in entry.items():
        if key in ("model", "gradient_as_bucket_view"):  # what is planned without a word is PyTorch's default
            continue
        name = "--" + key.replace("_", "-")
        if value is True or value is False:
            yield name if value else "--no-" + name[2:]
        else:
            yield from (name, str(value))


def planned(program, entry):
    """The plan as JSON, of the scripts' loop, which lets go of an output after backward; None: it is refused."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config_of(entry["model"]), file)
        file.flush()
        ended = subprocess.run([program, "plan", file.name, "--gpu", "h100-80gb", *words(entry),
                                "--held-until", "backward", "--format", "json"],
                               capture_output=True, text=True)
    return json.loads(ended.stdout) if ended.returncode == 0 else None


def main():
    program, path, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with open(path) as file:
        draws = json.load(file)["draws"]
    seen = {json.dumps(one["case"], sort_keys=True) for one in draws}
    rng, left = random.Random(seed), {"composed": count, "extrapolated": count}
    while any(left.values()):
        entry = draw(rng)
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
