"""The cases of task_peaks.json: models, and the planner's options."""

from loop_cases import ALL, QLORA

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


CASES = [*dpo(), *reward(), *without_reference(), *on_ranks(), *on_deepspeed()]
