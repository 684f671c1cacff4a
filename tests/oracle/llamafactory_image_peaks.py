"""Writes llamafactory_image_peaks.json: as llamafactory_peaks.py, stage sft over models with an encoder of images, by draws of what a
file says, measured before they were planned. Rows of one image size take the place of a dataset and its collator.

    ac-advisor dryrun --output /dev/null -- python llamafactory_image_peaks.py llamafactory_image_peaks.json
"""

import contextlib
import importlib
import json
import os
import random
import sys
import tempfile

import llamafactory_peaks  # noqa: F401  what its packages want of the others

import adapter_step
import torch
import transformers
import vision_cases
from emulated_cases import config_of
from image_rows import image_rows
from llamafactory.hparams import get_train_args
from llamafactory.model import loader
from llamafactory.train.sft import workflow
from loop_trainer import SecondStep
from task_step import words_tokenizer
from tool_peaks import main

SEED, DRAWS = 20261130, 18
MODELS = ("qwen25_vl_3b_4layers", "qwen3_vl_4b_4layers", "qwen25_vl_7b_2layers", "qwen3_vl_8b_4layers",
          "tiny_qwen2_5_vl_images", "tiny_qwen3_vl_images")


def drawn():
    draw = random.Random(SEED)
    for n in range(DRAWS):
        model = MODELS[n % len(MODELS)]
        batch, seq, more = vision_cases.sizes(draw, model)
        seq = -(-seq // 8) * 8  # its collator pads to a multiple of 8
        words = {"finetuning_type": draw.choice(("full", "lora")), "cutoff_len": seq, "per_device_train_batch_size": batch,
                 "gradient_accumulation_steps": draw.choice((1, 1, 1, 2)),
                 "pure_bf16" if draw.random() < 0.25 else "bf16": True}
        if words["finetuning_type"] == "lora":
            words |= {"lora_rank": draw.choice((8, 16)), "lora_target": draw.choice(("all", "all", "q_proj,v_proj"))}
        for key, value, chance in (("freeze_vision_tower", False, 0.4), ("freeze_multi_modal_projector", False, 0.4),
                                   ("disable_gradient_checkpointing", True, 0.25), ("use_reentrant_gc", False, 0.3)):
            if draw.random() < chance:
                words[key] = value
        if "qwen3" in model:  # DeepStack's mergers are frozen with the encoder
            words.pop("freeze_multi_modal_projector", None)
            if words.pop("freeze_vision_tower", None) is not None:
                words |= {"freeze_vision_tower": False, "freeze_multi_modal_projector": False}
        if draw.random() < 0.25:
            words["optim"] = draw.choice(("adamw_torch", "sgd", "adafactor"))
        yield {"model": model, "tool": "llamafactory", "training": words} | more


def collator(config, seq, case):
    """As MultiModalDataCollatorForSeq2Seq: positions by the model's get_rope_index, on the host."""

    def make(model, compute_dtype, **_):
        def collate(rows):
            row = image_rows(config, seq, case["images"], case["image_pixels"])
            count = len(rows)
            ids = torch.tensor([row["input_ids"]] * count)
            batch = {"input_ids": ids, "labels": torch.tensor([row["labels"]] * count), "attention_mask": torch.ones_like(ids),
                     "pixel_values": row["pixel_values"].repeat(count, 1).to(compute_dtype),
                     "image_grid_thw": row["image_grid_thw"].repeat(count, 1)}
            types = row["mm_token_type_ids"].repeat(count, 1)
            base = getattr(model, "base_model", model)
            base = getattr(base, "model", base)
            rope = base.get_rope_index if hasattr(base, "get_rope_index") else base.model.get_rope_index
            batch["position_ids"], _ = rope(ids, image_grid_thw=batch["image_grid_thw"], attention_mask=batch["attention_mask"],
                                            mm_token_type_ids=types)
            return batch | {"mm_token_type_ids": types}

        return collate

    return make


@contextlib.contextmanager
def stood_in(config, case):
    def from_pretrained(config, **_):
        with torch.device("cuda"):
            model = transformers.AutoModelForImageTextToText.from_config(config, dtype=torch.bfloat16)
        torch.cuda.empty_cache()
        return model

    before = loader.AutoModelForImageTextToText, loader.load_config
    made = type("Made", (), {"from_pretrained": staticmethod(from_pretrained), "_model_mapping": before[0]._model_mapping})
    loader.AutoModelForImageTextToText, loader.load_config = made, lambda _: config
    workflow.load_tokenizer = lambda *_: {"tokenizer": words_tokenizer(), "processor": None}
    seq = case["training"]["cutoff_len"]
    workflow.get_dataset = lambda *_, **__: {"train_dataset": [{"input_ids": [0]}] * 64}
    workflow.SFTDataCollatorWith4DAttentionMask = collator(config, seq, case)
    try:
        yield
    finally:
        loader.AutoModelForImageTextToText, loader.load_config = before


def measure(case):
    config = transformers.AutoConfig.for_model(**config_of(case["model"]) | {"dtype": torch.bfloat16})
    config._attn_implementation = "sdpa"
    text = config.text_config
    half = getattr(text, "head_dim", text.hidden_size // text.num_attention_heads) // 2
    text.rope_parameters.setdefault("mrope_section", [half // 4, half * 3 // 8, half * 3 // 8])  # as checkpoints have it
    second, peaks = SecondStep(), {}

    class Measured(transformers.TrainerCallback):
        def on_train_end(self, *_, **__):
            peaks.update(peak_allocated=torch.cuda.max_memory_allocated(), peak_reserved=torch.cuda.memory_reserved())

    transformers.Trainer.save_model = lambda *_, **__: None
    transformers.Trainer.save_state = lambda *_, **__: None
    with tempfile.TemporaryDirectory() as folder, stood_in(config, case):
        said = case["training"] | {
            "stage": "sft", "do_train": True, "model_name_or_path": "unused", "template": "empty", "dataset": "unused",
            "output_dir": folder, "max_steps": 2, "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True,
            "report_to": "none", "remove_unused_columns": False}
        arguments = get_train_args(said)
        workflow.run_sft(*arguments, callbacks=[second, Measured()])
    return peaks | {"launches": {"step": second.launches}}


if __name__ == "__main__":
    sys.exit(main(__doc__, list(drawn()), measure, ("transformers", "llamafactory", "trl", "peft")))
