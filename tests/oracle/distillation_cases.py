"""The cases of distillation_peaks.json: a student and its teacher, and the planner's options."""

import json
import pathlib
import random

from loop_cases import ALL, MODELS, QLORA

TRL = "--framework trl --task distillation"

# What a student of loop_cases.py can learn from: the vocabulary is the same.
TEACHERS = {file.stem: json.loads(file.read_text()) for file in sorted(pathlib.Path(__file__).parent.glob("teachers/*.json"))}
TAUGHT_BY = {"llama": ["llama_wide", "smollm3"], "untied": ["untied_wide", "mistral"], "mistral": ["untied_wide"],
             "qwen2": ["qwen2_wide", "qwen3_wide"], "qwen3": ["qwen3_wide", "qwen2_wide"], "gemma": ["gemma_wide"],
             "granite": ["granite_wide"], "smollm3": ["llama_wide"]}
ALL_MODELS = MODELS | TEACHERS


def by_hand():
    for student, teachers in TAUGHT_BY.items():
        for teacher in teachers:
            yield student, f"{TRL} --teacher {teacher} --batch 2 --prompt 256 --completion 768"
    for student, teacher in (("untied", "untied_wide"), ("qwen2", "qwen3_wide")):
        for more in ("--ac none", "--param-dtype bf16", "--param-dtype bf16 --ac none", f"--lora 16 {ALL}",
                     f"--lora 16 {ALL} --ac none --param-dtype bf16", f"{QLORA} {ALL} --param-dtype bf16", "--grad-accum 2",
                     "--optimizer sgd --ac none"):
            yield student, f"{TRL} --teacher {teacher} --batch 4 --prompt 256 --completion 768 {more}"
        yield student, f"{TRL} --teacher {teacher} --batch 8 --prompt 64 --completion 960 --param-dtype bf16"
        yield student, f"{TRL} --teacher {teacher} --batch 3 --prompt 100 --completion 401"
        yield student, f"--world 2 {TRL} --teacher {teacher} --batch 2 --prompt 256 --completion 768"
        for stage in ("zero1", "zero2"):
            yield student, f"--world 2 {TRL} --teacher {teacher} --shard {stage} --batch 2 --prompt 256 --completion 512"


def drawn(count=30):
    """Drawn, measured before any was planned for."""
    draw = random.Random(54)
    for _ in range(count):
        student = draw.choice(list(TAUGHT_BY))
        words = [TRL, "--teacher", draw.choice(TAUGHT_BY[student]), f"--batch {draw.choice('12345')}",
                 f"--prompt {draw.choice([64, 128, 300, 512])} --completion {draw.choice([256, 500, 512, 1024, 1536])}"]
        if draw.random() < 0.4:
            words += [f"--lora {draw.choice([8, 16, 64])}", ALL, *draw.choice([[], [], ["--quantize nf4"]])]
        if draw.random() < 0.5:
            words += ["--param-dtype bf16"]
        if draw.random() < 0.35:
            words += ["--ac none"]
        if draw.random() < 0.25:
            words += [f"--grad-accum {draw.choice([2, 3])}"]
        if draw.random() < 0.3:
            words += ["--optimizer", draw.choice(["sgd", "adafactor", "adamw-foreach"])]
        yield student, " ".join(words)


CASES = list(dict.fromkeys([*by_hand(), *drawn()]))
