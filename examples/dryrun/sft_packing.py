"""TRL's SFTTrainer: documents of several lengths packed into rows, with checkpointing."""

import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

from loop import report
from model import arguments, model

args = arguments(batch=4, seq=1024)
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel({"<eos>": 0, "<unk>": 1}, unk_token="<unk>")),
    eos_token="<eos>",
    pad_token="<eos>",
    unk_token="<unk>",
)
parts = [0.3, 0.7, 1.0, 0.1, 0.9, 0.5, 0.5, 1.0] * 8
rows = [torch.randint(0, 500, (max(2, int(args.seq * part)),)).tolist() for part in parts]
with tempfile.TemporaryDirectory() as folder:
    SFTTrainer(
        model=model(args.tiny),
        args=SFTConfig(
            output_dir=folder,
            max_steps=args.steps,
            max_length=args.seq,
            packing=True,
            per_device_train_batch_size=args.batch,
            gradient_accumulation_steps=2,
            gradient_checkpointing=True,
            bf16=True,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
        ),
        train_dataset=Dataset.from_dict({"input_ids": rows}),
        processing_class=tokenizer,
    ).train()
report()
