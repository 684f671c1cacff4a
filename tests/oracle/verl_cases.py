"""The cases of verl_peaks.json, in the planner's words; `verl` has what no option of the planner says: settings below
actor_rollout_ref, and `mini_batches`, of which a rank's rows are made (1)."""

import random

MODELS = ["qwen2_05b_4layers", "qwen3_06b_4layers", "llama1b_4layers", "smollm17b_untied_4layers"]
ENTROPY = {"actor.entropy_coeff": 0.001}
KL = {"actor.use_kl_loss": True}  # by low_var_kl, with coefficient 0.001: verl's own
CHUNKED = {"actor.entropy_from_logits_with_chunking": True}
UNCOMPILED = {"actor.fsdp_config.use_torch_compile": False}
ON_HOST = {"actor.fsdp_config.param_offload": True, "actor.fsdp_config.optimizer_offload": True}
WARM = {"rollout.temperature": 0.7}
ADAPTED = {"model.lora_rank": 16, "model.lora_alpha": 32}


def case(model, shard, batch, seq, world=2, grad_accum=1, ac="full", prompt=None, verl=None):
    entry = {"framework": "verl", "task": "grpo", "model": model, "world": world, "shard": shard, "batch": batch, "seq": seq,
             "prompt": prompt or seq // 4, "grad_accum": grad_accum, "ac": ac}
    return entry | ({"verl": verl} if verl else {})


def named():
    for model in ("qwen2_05b_4layers", "smollm17b_untied_4layers"):
        for shard in ("fsdp2", "fsdp1"):
            yield case(model, shard, 2, 1024)
            yield case(model, shard, 2, 1024, grad_accum=2)
            yield case(model, shard, 2, 1024, ac="none")
            yield case(model, shard, 2, 1024, verl=ENTROPY)
            yield case(model, shard, 2, 1024, verl=ENTROPY | KL)
    model = "qwen2_05b_4layers"
    for shard in ("fsdp2", "fsdp1"):
        yield case(model, shard, 2, 1024, verl=ENTROPY | UNCOMPILED)
        yield case(model, shard, 4, 1024, verl=ENTROPY | CHUNKED)
        yield case(model, shard, 4, 1024, verl=ENTROPY | CHUNKED | UNCOMPILED)
        yield case(model, shard, 2, 1024, verl=ENTROPY | {"actor.entropy_checkpointing": True})
        yield case(model, shard, 2, 1024, verl=WARM)
        yield case(model, shard, 2, 1024, verl=ON_HOST)
        yield case(model, shard, 2, 1024, verl={"actor.fsdp_config.param_offload": True})
        yield case(model, shard, 2, 1024, verl={"actor.fsdp_config.model_dtype": "bf16"})
        yield case(model, shard, 2, 1024, verl={"mini_batches": 2}, grad_accum=2)
        yield case(model, shard, 2, 1024, verl=ADAPTED)
        yield case(model, shard, 2, 1024, verl=ADAPTED | KL)


def drawn(count=40):
    """Drawn with a seed, and measured without a look at a plan."""
    draw = random.Random(91)
    for _ in range(count):
        verl = {}
        for chance, more in ((0.3, ENTROPY), (0.25, KL), (0.15, CHUNKED), (0.1, WARM), (0.1, UNCOMPILED), (0.1, ON_HOST)):
            if draw.random() < chance:
                verl |= more
        yield case(draw.choice(MODELS), draw.choice(["fsdp1", "fsdp2"]), draw.choice([1, 1, 2, 2, 4]),
                   draw.choice([512, 700, 1024, 1536, 2048]), draw.choice([2, 2, 4, 8]), draw.choice([1, 1, 2, 4]),
                   draw.choice(["full", "full", "full", "none"]), prompt=draw.choice([128, 256, 300]), verl=verl)


def drawn_adapters(count=12):
    draw = random.Random(92)
    for _ in range(count):
        rank = draw.choice([8, 16, 64])
        verl = {"model.lora_rank": rank, "model.lora_alpha": 2 * rank}
        for chance, more in ((0.3, ENTROPY), (0.4, KL), (0.3, {"actor.fsdp_config.model_dtype": "bf16"})):
            if draw.random() < chance:
                verl |= more
        yield case(draw.choice(MODELS), draw.choice(["fsdp1", "fsdp2"]), draw.choice([1, 2, 4]), draw.choice([512, 1024, 1536]),
                   draw.choice([2, 4]), draw.choice([1, 2]), draw.choice(["full", "full", "none"]), prompt=256, verl=verl)


def unique(entries):
    found = []
    for entry in entries:
        found += [] if entry in found else [entry]
    return found


def words(entry):
    """The planner's options; None: it has none for a setting."""
    verl = dict(entry.get("verl", {}))
    rank = verl.pop("model.lora_rank", 0)
    verl.pop("model.lora_alpha", None)
    verl.pop("mini_batches", None)  # one after another
    names = ("framework", "task", "world", "shard", "batch", "seq", "prompt", "grad_accum", "ac")
    text = [f"--{name.replace('_', '-')} {entry[name]}" for name in names] + ["--rollout vllm:tp1,util=0.3,sleep=1"]
    if rank:
        text.append(f"--lora {rank} --lora-targets all-linear")
    if verl.pop("actor.entropy_coeff", 0):
        text.append("--entropy-loss")
    if verl.pop("actor.use_kl_loss", False):
        text.append("--ref " + ("adapter" if rank else "model"))
    if all(name in verl for name in ON_HOST):
        text.append("--phase-offload all")
        verl = {name: value for name, value in verl.items() if name not in ON_HOST}
    if "actor.fsdp_config.model_dtype" in verl:
        text.append("--param-dtype " + verl.pop("actor.fsdp_config.model_dtype"))
    return None if verl else " ".join(text)


CASES = unique([*named(), *drawn(), *drawn_adapters()])

if __name__ == "__main__":  # world and number of each
    for number, entry in enumerate(CASES):
        print(entry["world"], number)
