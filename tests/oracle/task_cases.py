"""The cases of task_peaks.json: models, and the planner's options."""

import random

from loop_cases import ALL, BALANCED, QLORA, once

TRL = "--framework trl"


def dpo():
    for name in ("llama", "untied", "qwen2", "qwen3", "mistral", "gemma", "granite", "smollm3", "olmo2"):
        yield name, f"{TRL} --task dpo --batch 2 --seq 1024"
        yield name, f"{TRL} --task dpo --batch 1 --seq 1024 --ac none"
        if name not in ("granite", "smollm3", "gemma", "olmo2"):
            yield name, f"{TRL} --task dpo --batch 2 --seq 1024 --lora 16 {ALL}"
    for name in ("llama", "qwen2", "untied"):
        for more in ("--ref precomputed", "--ref precomputed --ac none", "--param-dtype bf16", "--param-dtype bf16 --ac none",
                     f"--lora 16 {ALL} --ac none", f"--lora 16 {ALL} --param-dtype bf16", f"--lora 16 {ALL} --ref precomputed",
                     f"--lora 16 {ALL} --ref model --param-dtype bf16", f"{QLORA} {ALL}", f"{QLORA} {ALL} --ac none",
                     "--prompt 512", "--prompt 512 --ac none", f"--prompt 768 --lora 16 {ALL}", "--grad-accum 2"):
            yield name, f"{TRL} --task dpo --batch 2 --seq 1024 {more}"
        yield name, f"{TRL} --task dpo --batch 3 --seq 1000 --ac none"
        yield name, f"{TRL} --task dpo --batch 4 --seq 2048 --prompt 1024 --param-dtype bf16"
        yield name, f"{TRL} --task dpo --batch 8 --seq 512 --prompt 256 {QLORA} {ALL}"


def reward():
    for name in ("llama", "untied", "qwen2", "qwen3", "mistral", "gemma"):
        for more in ("", " --ac none"):
            yield name, f"{TRL} --task reward --batch 2 --seq 1024{more}"
    for name in ("llama", "qwen2"):
        for more in ("--param-dtype bf16", f"--lora 16 {ALL}", f"--lora 16 {ALL} --ac none", "--grad-accum 2",
                     f"--lora 16 {ALL} --param-dtype bf16"):
            yield name, f"{TRL} --task reward --batch 2 --seq 1024 {more}"
        yield name, f"{TRL} --task reward --batch 3 --seq 1000"


def without_reference():
    for task in ("orpo", "simpo"):
        for name in ("llama", "untied", "qwen2", "qwen3", "mistral"):
            for more in ("", " --ac none"):
                yield name, f"{TRL} --task {task} --batch 2 --seq 1024{more}"
        for name in ("llama", "qwen2"):
            for more in ("--prompt 512", f"--lora 16 {ALL}", "--param-dtype bf16", f"--lora 16 {ALL} --ac none"):
                yield name, f"{TRL} --task {task} --batch 2 --seq 1024 {more}"


def offloaded():
    for name in ("llama", "qwen2"):
        yield name, f"{TRL} --task dpo --batch 2 --seq 1024 --offload activations"


def on_ranks():
    for name in ("untied", "qwen2"):
        for more in ("", f" --lora 16 {ALL}", " --ref precomputed"):
            yield name, f"--world 2 {TRL} --task dpo --batch 2 --seq 1024{more}"
        yield name, f"--world 2 {TRL} --task reward --batch 2 --seq 1024"


def on_deepspeed():
    """A process each (--only)."""
    for stage in ("zero1", "zero2"):
        for name in ("untied", "qwen2"):
            for more in ("", f" --lora 16 {ALL}", " --ref precomputed"):
                yield name, f"--world 2 {TRL} --task dpo --shard {stage} --batch 2 --seq 1024{more}"
        yield "llama", f"--world 2 {TRL} --task dpo --shard {stage} --batch 1 --seq 2048"


DRAWN_FROM = ["llama", "untied", "qwen2", "qwen3", "mistral", "gemma", "phi3", "olmo2", "granite", "smollm3"]
LENGTHS = [256, 512, 768, 1000, 1536, 2048]


def adapters(draw, quantizes=True):
    words = ["--lora", draw.choice(["8", "16", "32", "64"]), ALL]
    if quantizes:
        words += draw.choice([[], ["--quantize nf4"], ["--quantize nf4-double"], ["--quantize int8"]])
    return words


def loop(draw, optimizers):
    """What any of the trainers may be given."""
    words = []
    if draw.random() < 0.35:
        words += ["--ac none"]
    if draw.random() < 0.3:
        words += ["--param-dtype bf16"]
    if draw.random() < 0.2:
        words += ["--grad-accum 3"]
    if draw.random() < 0.2:
        words += ["--optimizer", draw.choice(optimizers)]
    return words


def rows(draw, task, batches):
    """A model; rows of a prompt and an answer."""
    name, seq = draw.choice(DRAWN_FROM), draw.choice(LENGTHS)
    return name, [TRL, "--task", task, "--batch", draw.choice(batches), "--seq", str(seq),
                  "--prompt", str(seq // draw.choice([2, 3, 4, 8]))]


def drawn(count=30):
    """Drawn, measured before any was planned for."""
    draw = random.Random(47)
    for _ in range(count):
        name = draw.choice(DRAWN_FROM)
        task = draw.choice(["dpo"] * 4 + ["reward", "orpo", "simpo"])
        seq = draw.choice(LENGTHS)
        words = [TRL, "--task", task, "--batch", draw.choice("12345"), "--seq", str(seq)]
        adapted = draw.random() < 0.45
        if adapted:
            words += adapters(draw, quantizes=task == "dpo")
        if task == "dpo":
            words += draw.choice([[], ["--ref precomputed"]])
        if task != "reward" and draw.random() < 0.4:
            words += ["--prompt", str(seq // draw.choice([2, 3, 4]))]
        yield name, " ".join(words + loop(draw, ["adamw-8bit", "sgd", "adafactor", "adamw-foreach"]))


def online():
    """Their rows are a prompt and a completion each; 2 of a group."""
    for name in ("llama", "untied", "qwen2", "qwen3", "mistral", "gemma", "granite", "smollm3", "olmo2"):
        yield name, f"{TRL} --task grpo --batch 4 --seq 1024 --prompt 256"
        yield name, f"{TRL} --task grpo --batch 2 --seq 1024 --prompt 512 --ac none"
    for name in ("llama", "qwen2", "untied"):
        for more in ("--param-dtype bf16", f"--lora 16 {ALL}", f"--lora 16 {ALL} --ac none", f"{QLORA} {ALL}",
                     f"--lora 16 {ALL} --ref adapter", "--ref model", "--ref model --param-dtype bf16", "--grad-accum 2",
                     "--grad-accum 4 --ref model"):
            yield name, f"{TRL} --task grpo --batch 4 --seq 1024 --prompt 256 {more}"
        yield name, f"{TRL} --task grpo --batch 8 --seq 2048 --prompt 1024 --param-dtype bf16"
        yield name, f"{TRL} --task grpo --batch 2 --seq 4096 --prompt 64 --param-dtype bf16"


def drawn_online(count=30):
    """Drawn, measured before any was planned for."""
    draw = random.Random(48)
    for _ in range(count):
        name, words = rows(draw, "grpo", "2468")
        if draw.random() < 0.45:
            words += adapters(draw)
            words += draw.choice([[], ["--ref adapter"]])
        elif draw.random() < 0.3:
            words += ["--ref model"]
        yield name, " ".join(words + loop(draw, ["sgd", "adafactor", "adamw-foreach"]))


def leave_one_out():
    """RLOOTrainer's: as online(), with a reference by default. scoring_peaks.py runs them, as each scores what was written."""
    for name in ("llama", "untied", "qwen2", "qwen3", "mistral", "gemma", "granite"):
        yield name, f"{TRL} --task rloo --batch 4 --seq 1024 --prompt 256"
    for name in ("untied", "qwen2"):
        for more in ("--ac none", "--ref none", "--param-dtype bf16", f"--lora 16 {ALL}", f"--lora 16 {ALL} --ac none",
                     f"{QLORA} {ALL}", f"--lora 16 {ALL} --ref none", "--grad-accum 2", f"--lora 16 {ALL} --grad-accum 4"):
            yield name, f"{TRL} --task rloo --batch 4 --seq 1024 --prompt 256 {more}"
    yield "llama", f"{TRL} --task rloo --batch 8 --seq 2048 --prompt 1024 --param-dtype bf16"
    yield "qwen2", f"{TRL} --task rloo --batch 2 --seq 4096 --prompt 64 --param-dtype bf16"


def drawn_leave_one_out(count=30):
    """Drawn, measured before a plan of any was seen."""
    draw = random.Random(50)
    for _ in range(count):
        name, words = rows(draw, "rloo", "2468")
        if draw.random() < 0.45:
            words += adapters(draw)
        words += draw.choice([[], [], ["--ref none"]])
        yield name, " ".join(words + loop(draw, ["sgd", "adafactor", "adamw-foreach"]))


def unpaired():
    """KTOTrainer's."""
    for name in ("llama", "qwen2", "untied"):
        for more in ("", "--ac none", "--ref precomputed", "--param-dtype bf16", "--grad-accum 2", f"--lora 16 {ALL}",
                     f"--lora 16 {ALL} --ref precomputed", f"{QLORA} {ALL}"):
            yield name, f"{TRL} --task kto --batch 4 --seq 1024 --prompt 256 {more}".rstrip()


def experts():
    """Where TRL adds no auxiliary loss: to rewards and to whole logits none, to the others none of a configuration without a
    router_aux_loss_coef."""
    for task in ("dpo", "dpo --ref precomputed --ac none", f"dpo --lora 16 {ALL}", "kto", "grpo --prompt 256", "rloo --prompt 256"):
        yield "glm4_moe", f"{TRL} --task {task} --batch 2 --seq 1024 --param-dtype bf16"
    yield "glm4_moe", f"{TRL} --task orpo --batch 2 --seq 1024 --param-dtype bf16"
    for name in ("mixtral", "qwen3_moe"):
        for task in ("reward", "orpo"):
            yield name, f"{TRL} --task {task} --batch 2 --seq 1024 --param-dtype bf16"


def drawn_unpaired(count=20):
    """Drawn, measured before any was planned for."""
    draw = random.Random(49)
    for _ in range(count):
        name, words = rows(draw, "kto", "2346")
        if draw.random() < 0.45:
            words += adapters(draw)
        words += draw.choice([[], [], ["--ref precomputed"]])
        yield name, " ".join(words + loop(draw, ["sgd", "adafactor", "adamw-foreach"]))


def balanced_experts(count=36):
    """With the routers' auxiliary loss. Drawn, measured before any was planned."""
    draw = random.Random(54)
    for _ in range(count):
        task = draw.choice(["dpo", "dpo", "kto", "grpo", "rloo"])
        words = [TRL, "--task", task, "--batch", draw.choice("24"), "--seq", str(draw.choice([512, 768, 1024, 2048])),
                 "--param-dtype bf16"]
        name = draw.choice(BALANCED)
        if task in ("grpo", "rloo") or draw.random() < 0.5:
            words += ["--prompt 256"]
        if draw.random() < 0.35:
            words += ["--ac none"]
        if draw.random() < 0.25:
            words += ["--grad-accum 2"]
        if draw.random() < 0.3:
            words += [f"--lora {draw.choice([8, 16, 64])} --lora-targets q_proj,v_proj"]
        elif draw.random() < 0.3:
            words += [{"dpo": "--ref precomputed", "kto": "--ref precomputed", "grpo": "--ref model", "rloo": "--ref none"}[task]]
        if name != "phimoe":
            yield name, " ".join(words)


def router_loss_by_hand():
    for name, more in (("phimoe", "dpo"), ("phimoe", "grpo --prompt 256"), ("mixtral", "kto"), ("qwen3_moe", "dpo --lora 16 --lora-targets q_proj,v_proj")):
        yield name, f"{TRL} --task {more} --batch 2 --seq 1024 --param-dtype bf16 --router-aux-loss off"


CASES = [*dpo(), *reward(), *without_reference(), *offloaded(), *on_ranks(), *on_deepspeed(), *drawn(), *online(), *drawn_online(), *unpaired(), *drawn_unpaired(), *experts(), *(case for case in once(balanced_experts()) if "--task rloo" not in case[1]), *router_loss_by_hand()]
LEAVE_ONE_OUT = [*leave_one_out(), *drawn_leave_one_out(), *(case for case in once(balanced_experts()) if "--task rloo" in case[1])]
