"""The cases of llamafactory_peaks.json: models of loop_cases.py, and the planner's options."""

import random

from loop_cases import ALL

LLAMAFACTORY = "--framework llamafactory"
DRAWN_FROM = ["llama", "untied", "qwen2", "qwen3", "mistral", "gemma", "phi3", "olmo2", "granite"]
TASKS = ["sft"] * 2 + ["dpo"] * 5 + ["orpo", "simpo"] + ["kto"] * 2 + ["reward"] * 2


def adapters(draw):
    words = ["--lora", draw.choice(["8", "16", "32", "64"]), ALL]
    return words + draw.choice([[], ["--quantize nf4"], ["--quantize nf4-double"], ["--quantize int8"]])


def drawn(count=60):
    """Drawn, measured before any was planned for."""
    draw = random.Random(46)
    for _ in range(count):
        name, task, seq = draw.choice(DRAWN_FROM), draw.choice(TASKS), draw.choice([256, 512, 768, 1000, 1024, 2048])
        words = [LLAMAFACTORY, "--task", task, "--batch", draw.choice("2346" if task == "kto" else "1234"), "--seq", str(seq)]
        if draw.random() < 0.6:
            words += adapters(draw)
        elif draw.random() < 0.3:
            words += ["--param-dtype bf16 --autocast none"]
        if draw.random() < 0.35:
            words += ["--ac none"]
        elif draw.random() < 0.3:
            words += ["--no-ac-reentrant"]
        if task not in ("sft", "reward") and draw.random() < 0.4:
            words += ["--prompt", str(seq // draw.choice([2, 3, 4]))]
        if draw.random() < 0.2:
            words += ["--grad-accum 3"]
        if draw.random() < 0.2:
            words += ["--optimizer", draw.choice(["sgd", "adafactor", "adamw-foreach", "adamw-8bit"])]
        yield name, " ".join(words)


def shown():
    """One of each stage, small, of full parameters and of adapters."""
    for task in ("sft", "dpo", "orpo", "simpo", "kto", "reward"):
        yield "untied", f"{LLAMAFACTORY} --task {task} --batch 2 --seq 1024"
        yield "qwen2", f"{LLAMAFACTORY} --task {task} --batch 2 --seq 1024 --lora 16 {ALL}"


CASES = [*shown(), *drawn()]
