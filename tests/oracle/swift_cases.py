"""The steps of swift_peaks.py, drawn by a seeded generator: what a command of ms-swift's says, and how many images of which size a
row has."""

import random

import vision_cases
from loop_cases import MODELS

SEED, IMAGE_DRAWS, PREFERENCE_DRAWS = 20261129, 30, 36
IMAGE_MODELS = ("qwen25_vl_3b_4layers", "qwen3_vl_4b_4layers", "qwen25_vl_7b_2layers", "qwen3_vl_8b_4layers",
                "tiny_qwen2_5_vl_images", "tiny_qwen3_vl_images")
TEXT_MODELS = {"untied": "llama", "llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "mistral": "mistral"}
TASKS = ["dpo"] * 6 + ["kto"] * 3 + ["orpo", "simpo", "rm"]


def batch_of(draw, batch):
    words = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": draw.choice((1, 1, 1, 2))}
    if draw.random() < 0.3:
        words["optim"] = draw.choice(("adamw_torch", "sgd", "adafactor"))
    return words


def tuner(draw, of_images):
    if draw.random() < 0.4:
        return {"tuner_type": "full"}
    words = {"tuner_type": "lora", "lora_rank": draw.choice((8, 16, 64))}
    if not of_images and draw.random() < 0.3:
        words |= {"quant_method": "bnb", "quant_bits": 4}
    if draw.random() < 0.3:
        words["lora_dropout"] = 0
    if draw.random() < 0.2:
        words["target_modules"] = ["q_proj", "v_proj"]
    return words


def images():
    draw = random.Random(SEED)
    for n in range(IMAGE_DRAWS):
        model = IMAGE_MODELS[n % len(IMAGE_MODELS)]
        batch, seq, more = vision_cases.sizes(draw, model)
        words = tuner(draw, True) | batch_of(draw, batch) | {"max_length": seq}
        for key, value, chance in (("freeze_vit", False, 0.4), ("freeze_aligner", False, 0.4), ("freeze_llm", True, 0.15),
                                   ("gradient_checkpointing", False, 0.25)):
            if draw.random() < chance:
                words[key] = value
        if words.get("freeze_llm") and "freeze_vit" not in words and "freeze_aligner" not in words:
            words["freeze_aligner"] = False
        if draw.random() < 0.35:
            words["vit_gradient_checkpointing"] = draw.random() < 0.5
        if n % 3 == 2:
            words["NPROC_PER_NODE"] = 2
        yield {"model": model, "tool": "ms-swift", "training": words} | more


def preferences():
    draw = random.Random(SEED + 1)
    for n in range(PREFERENCE_DRAWS):
        model = draw.choice(list(TEXT_MODELS))
        task, seq = TASKS[n % len(TASKS)], draw.choice((256, 512, 768, 1000, 1024, 2048))
        words = {"rlhf_type": task} | tuner(draw, False)
        words |= batch_of(draw, draw.choice((2, 3, 4, 6) if task == "kto" else (1, 2, 3, 4))) | {"max_length": seq}
        if draw.random() < 0.3:
            words["gradient_checkpointing"] = False
        if task == "dpo" and draw.random() < 0.35:
            words["rpo_alpha"] = 0.1
        if task == "dpo" and draw.random() < 0.3:
            words["loss_type"] = draw.choice(("hinge", "ipo", "robust"))
        prompt = seq // draw.choice((2, 3, 4)) if draw.random() < 0.4 else 1
        if task not in ("dpo", "kto"):  # not planned; a reward model's class swift_step.py does not make
            continue
        yield {"model": model, "tool": "ms-swift", "training": words, "prompt": prompt}


assert set(TEXT_MODELS) <= set(MODELS)
