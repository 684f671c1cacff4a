"""TRL's SFTTrainer on token ids: packing, LoRA, checkpointing."""

import tempfile

from datasets import Dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer
from transformers import PreTrainedTokenizerFast
from tokenizers import Tokenizer, models, pre_tokenizers

from model import arguments, model

args = arguments(batch=2, seq=512)
words = {f"w{i}": i for i in range(500)} | {"<pad>": 500, "<eos>": 501, "<unk>": 502}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
fast = PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
)
rows = [{"text": " ".join(f"w{(i * 7 + j) % 500}" for j in range(40 + i % 50))} for i in range(256)]
with tempfile.TemporaryDirectory() as folder:
    SFTTrainer(
        model=model(args.tiny),
        args=SFTConfig(
            output_dir=folder,
            max_steps=args.steps,
            per_device_train_batch_size=args.batch,
            max_length=args.seq,
            gradient_checkpointing=True,
            bf16=True,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=fast,
        peft_config=LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"),
    ).train()
