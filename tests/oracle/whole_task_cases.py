"""The cases of whole_task_peaks.json: models of loop_cases.py, and the planner's options."""

import random

from loop_cases import ALL
from task_cases import DRAWN_FROM, LENGTHS, TRL, adapters, loop

WHOLE = f"{TRL} --loss ce"


def drawn(count=40):
    """Drawn, measured before any was planned."""
    draw = random.Random(55)
    for _ in range(count):
        name, task, seq = draw.choice(DRAWN_FROM), draw.choice(["dpo", "dpo", "kto"]), draw.choice(LENGTHS)
        words = [WHOLE, "--task", task, "--batch", draw.choice("2346" if task == "kto" else "1234"), "--seq", str(seq)]
        if draw.random() < 0.45:
            words += adapters(draw)
        words += loop(draw, ["sgd", "adafactor", "adamw-foreach", "adamw-8bit"])
        if draw.random() < 0.4:
            words += ["--prompt", str(seq // draw.choice([2, 3, 4]))]
        if draw.random() < 0.2:
            words += ["--ref precomputed"]
        yield name, " ".join(words)


def shown():
    """One of each, small, of full parameters and of adapters."""
    for task in ("dpo", "kto"):
        for name in ("untied", "qwen2"):
            yield name, f"{WHOLE} --task {task} --batch 2 --seq 1024"
            yield name, f"{WHOLE} --task {task} --batch 2 --seq 1024 --lora 16 {ALL}"


def on_ranks():
    for name in ("untied", "qwen2"):
        for more in ("", f" --lora 16 {ALL}"):
            yield name, f"--world 2 {WHOLE} --task dpo --batch 2 --seq 1024{more}"
            yield name, f"--world 2 {WHOLE} --task dpo --shard zero2 --batch 2 --seq 1024{more}"


CASES = [*shown(), *drawn(), *on_ranks()]
