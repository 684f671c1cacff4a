"""The cases of verl_critic_peaks.json, in the planner's words. `verl` as in verl_cases.py; `critic` is another model than the
actor's, `critic_rows` what ppo_infer_max_token_len_per_gpu is made of, `critic_settings` stand below critic."""

import random

from verl_cases import ADAPTED, ENTROPY, KL, MODELS, ON_HOST, case, unique
from verl_cases import words as words_of_actor

CRITIC_ON_HOST = {"fsdp.param_offload": True, "fsdp.optimizer_offload": True}
STATES_ON_HOST = {"fsdp.optimizer_offload": True}
ALL_ON_HOST = "all"


def step(*given, critic=None, critic_rows=0, critic_settings=None, **more):
    entry = case(*given, **more) | {"task": "ppo"}
    settings = dict(critic_settings or {})
    if critic_rows:
        settings["ppo_infer_max_token_len_per_gpu"] = critic_rows * entry["seq"]
        entry["critic_rows"] = critic_rows
    if critic and critic != entry["model"]:
        entry["critic"] = critic
    return entry | ({"critic_settings": settings} if settings else {})


def named():
    for model in ("qwen2_05b_4layers", "smollm17b_untied_4layers"):
        for shard in ("fsdp2", "fsdp1"):
            yield step(model, shard, 2, 1024)
            yield step(model, shard, 2, 1024, grad_accum=2)
            yield step(model, shard, 1, 1024, grad_accum=4, critic_rows=2)
            yield step(model, shard, 2, 1024, ac="none")
            yield step(model, shard, 2, 1024, verl=ON_HOST, critic_settings=CRITIC_ON_HOST)
            yield step(model, shard, 2, 1024, critic_settings=CRITIC_ON_HOST)
            yield step(model, shard, 2, 1024, critic_settings=STATES_ON_HOST)
            yield step(model, shard, 2, 1024, verl=KL)
    yield step("qwen2_05b_4layers", "fsdp2", 2, 1024, verl=ADAPTED)
    yield step("qwen2_05b_4layers", "fsdp2", 2, 1024, verl={"mini_batches": 2})
    yield step("qwen2_05b_4layers", "fsdp2", 2, 1024, critic="smollm17b_untied_4layers")
    yield step("smollm17b_untied_4layers", "fsdp1", 2, 1024, critic="qwen3_06b_4layers")


def drawn(count=28):
    """Drawn with a seed, and measured without a look at a plan."""
    draw = random.Random(93)
    for _ in range(count):
        verl = {}
        for chance, more in ((0.3, ENTROPY), (0.25, KL), (0.15, ON_HOST)):
            if draw.random() < chance:
                verl |= more
        yield step(draw.choice(MODELS), draw.choice(["fsdp1", "fsdp2"]), draw.choice([1, 1, 2, 2, 4]),
                   draw.choice([512, 700, 1024, 1536, 2048]), draw.choice([2, 2, 4, 8]), draw.choice([1, 1, 2, 4]),
                   draw.choice(["full", "full", "full", "none"]), prompt=draw.choice([128, 256, 300]), verl=verl,
                   critic=draw.choice([None, None, *MODELS]), critic_rows=draw.choice([0, 0, 1, 2, 3]),
                   critic_settings=draw.choice([{}, {}, {}, CRITIC_ON_HOST, STATES_ON_HOST]))


def words(entry):
    """The planner's options; None: it has none for a setting."""
    text = words_of_actor(entry)
    if text is None:
        return None
    if "critic" in entry:
        text += f" --critic {entry['critic']}"
    if "critic_rows" in entry:
        text += f" --critic-batch {entry['critic_rows']}"
    settings = {name: value for name, value in entry.get("critic_settings", {}).items() if name.startswith("fsdp.")}
    parked = {0: "none", 1: "optimizer", 2: "all"}[len(settings)]
    return text if parked == ("all" if "--phase-offload all" in text else "none") else f"{text} --critic-offload {parked}"


CASES = unique([*named(), *drawn()])

if __name__ == "__main__":  # world and number of each
    for number, entry in enumerate(CASES):
        print(entry["world"], number)
