"""The cases of sharded_trainer_peaks.json: models, and the planner's options."""

import random

from distillation_cases import TAUGHT_BY
from loop_cases import ALL
from task_cases import LENGTHS, TRL

MODELS = ["llama", "untied", "qwen2", "qwen3", "mistral", "gemma", "phi3", "olmo2"]


def named():
    for shard in ("zero3", "fsdp2"):
        for name in ("untied", "qwen2"):
            for task in ("sft", "dpo", "dpo --ref precomputed", "reward", "orpo", "simpo"):
                if shard == "fsdp2" and "precomputed" in task:
                    continue  # TRL computes them by a model that it loads by name
                yield name, f"--world 2 {TRL} --task {task} --shard {shard} --batch 2 --seq 1024"
            for task in ("sft", "dpo", "reward"):
                yield name, f"--world 2 {TRL} --task {task} --shard {shard} --batch 2 --seq 1024 --lora 16 {ALL}"
            yield name, f"--world 2 {TRL} --task dpo --shard {shard} --batch 2 --seq 1024 --ac none"
            for more in ("--ac none", "--grad-accum 2"):  # the reference is the policy without its adapters
                yield name, f"--world 2 {TRL} --task dpo --shard {shard} --batch 2 --seq 1024 --lora 16 {ALL} {more}"
            yield name, f"--world 2 {TRL} --task grpo --shard {shard} --rollout served --batch 4 --seq 1024 --prompt 256"
            yield name, f"--world 2 {TRL} --task grpo --ref model --shard {shard} --rollout served --batch 4 --seq 1024 --prompt 256"


def drawn(count=40):
    """Drawn, measured before any was planned for."""
    draw = random.Random(52)
    for _ in range(count):
        name, shard = draw.choice(MODELS), draw.choice(["zero3", "fsdp2"])
        task = draw.choice(["sft", "sft", "dpo", "dpo", "dpo", "reward", "orpo", "grpo"])
        world, seq = draw.choice([2, 4, 8]), draw.choice(LENGTHS)
        words = [f"--world {world}", TRL, "--task", task, "--shard", shard, "--batch", draw.choice("246" if task == "grpo" else "1234"),
                 "--seq", str(seq)]
        adapted = draw.random() < 0.4
        if adapted:
            words += ["--lora", draw.choice(["8", "16", "64"]), ALL]
        if task == "dpo":
            words += draw.choice([[], [], ["--ref precomputed"] if shard == "zero3" else []])
        if task == "grpo":
            words += ["--rollout served", "--prompt", str(seq // draw.choice([2, 4]))]
            words += [] if adapted else draw.choice([[], ["--ref model"]])
        elif task not in ("reward", "sft") and draw.random() < 0.4:
            words += ["--prompt", str(seq // draw.choice([2, 3]))]
        yield name, " ".join(words + loop(draw))


def loop(draw):
    each = ((0.3, "--ac none"), (0.3, "--param-dtype bf16"), (0.25, "--grad-accum 2"))
    return [word for chance, word in each if draw.random() < chance]


def unpaired():
    """KTOTrainer's: of four forwards three have no gradients."""
    for shard in ("zero3", "fsdp2"):
        own = f"--world 2 {TRL} --task kto --shard {shard} --batch 4 --seq 1024 --prompt 256"
        for name, more in (("untied", ""), ("qwen2", ""), ("untied", "--ac none"), ("untied", f"--lora 16 {ALL}"),
                           ("qwen2", f"--lora 16 {ALL}"), ("untied", f"--lora 16 {ALL} --grad-accum 2")):
            yield name, f"{own} {more}".rstrip()
    yield "untied", f"--world 2 {TRL} --task kto --shard zero3 --batch 4 --seq 1024 --prompt 256 --ref precomputed"


def drawn_unpaired(count=14):
    """Drawn before any was planned for."""
    draw = random.Random(53)
    for _ in range(count):
        name, shard = draw.choice(MODELS), draw.choice(["zero3", "fsdp2"])
        world, seq = draw.choice([2, 4, 8]), draw.choice(LENGTHS)
        words = [f"--world {world}", TRL, "--task kto --shard", shard, "--batch", draw.choice("2346"), "--seq", str(seq),
                 "--prompt", str(seq // draw.choice([2, 3, 4, 8]))]
        if draw.random() < 0.4:
            words += ["--lora", draw.choice(["8", "16", "64"]), ALL]
        yield name, " ".join(words + loop(draw))


def leave_one_out():
    for shard in ("zero3", "fsdp2"):
        for more in ("", f" --lora 16 {ALL}"):
            yield "untied", f"--world 2 {TRL} --task rloo --shard {shard} --rollout served --batch 4 --seq 1024 --prompt 256{more}"


def drawn_with_reference(count=8):
    """Completions that a second model scores under FSDP2; drawn before any was planned for."""
    draw = random.Random(54)
    for _ in range(count):
        name, task = draw.choice(MODELS), draw.choice(["grpo", "rloo"])
        world, seq = draw.choice([2, 4, 8]), draw.choice(LENGTHS)
        words = [f"--world {world}", TRL, "--task", task, "--ref model --shard fsdp2 --rollout served --batch", draw.choice("246"),
                 "--seq", str(seq), "--prompt", str(seq // draw.choice([2, 4, 8]))]
        yield name, " ".join(words + loop(draw))


def taught():
    """With a teacher that is sharded, too. Under FSDP2 it stays on the host, and its forward ends in an error."""
    for name, teacher in (("untied", "untied_wide"), ("qwen2", "qwen3_wide"), ("qwen2", "qwen2_wide")):
        yield name, (f"--world 2 {TRL} --task distillation --teacher {teacher} --shard zero3 --rollout served --batch 2 "
                     "--prompt 256 --completion 768")


def drawn_taught(count=12):
    """Drawn before any was planned for."""
    draw = random.Random(55)
    for _ in range(count):
        name = draw.choice(list(TAUGHT_BY))
        words = [f"--world {draw.choice([2, 4, 8])}", TRL, "--task distillation --teacher", draw.choice(TAUGHT_BY[name]),
                 "--shard zero3 --rollout served --batch", draw.choice("1234"), "--prompt",
                 draw.choice(["64", "256", "512"]), "--completion", draw.choice(["256", "500", "1024"])]
        if draw.random() < 0.3:
            words += ["--lora", draw.choice(["8", "16", "64"]), ALL]
        yield name, " ".join(words + loop(draw))


CASES = [*named(), *drawn(), *unpaired(), *drawn_unpaired(), *leave_one_out(), *drawn_with_reference(), *taught(),
         *drawn_taught()]
