"""Hugging Face's Trainer: bf16, gradient accumulation, clipping, checkpointing."""

import tempfile

import torch
from transformers import Trainer, TrainingArguments

from model import arguments, config, model

args = arguments(batch=2, seq=2048)


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        ids = torch.randint(0, config(args.tiny).vocab_size, (args.seq,), generator=generator)
        return {"input_ids": ids, "labels": ids}


with tempfile.TemporaryDirectory() as folder:
    Trainer(
        model=model(args.tiny, device="cpu" if args.tiny else "cuda"),
        args=TrainingArguments(
            output_dir=folder,
            max_steps=args.steps,
            per_device_train_batch_size=args.batch,
            gradient_accumulation_steps=2,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            max_grad_norm=1.0,
            bf16=True,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
        ),
        train_dataset=Tokens(),
    ).train()
