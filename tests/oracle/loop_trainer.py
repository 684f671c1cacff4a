"""The cases of --framework hf-trainer: transformers.Trainer itself, bf16=True over the parameters' own dtype."""

import tempfile

import torch
import transformers

OPTIMIZERS = {"adamw": "adamw_torch_fused", "adamw-8bit": "adamw_bnb_8bit", "adafactor": "adafactor"}


class Tokens(torch.utils.data.Dataset):
    """Rows of one length."""

    def __init__(self, seq):
        self.row = torch.zeros(seq, dtype=torch.int64)

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return {"input_ids": self.row, "labels": self.row}


class SecondStep(transformers.TrainerCallback):
    """The peak of allocated memory from the second step's begin on."""

    def on_step_begin(self, args, state, control, **_):
        if state.global_step == 1:
            torch.cuda.reset_peak_memory_stats()


def measure_trainer(config, options, dtype):
    config = transformers.AutoConfig.for_model(**config)
    config._attn_implementation = "sdpa"
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype).train()
    torch.cuda.empty_cache()
    with tempfile.TemporaryDirectory() as folder:
        trainer = transformers.Trainer(
            model=model,
            args=transformers.TrainingArguments(
                output_dir=folder,
                max_steps=2,
                per_device_train_batch_size=options.batch,
                gradient_accumulation_steps=options.grad_accum,
                gradient_checkpointing=options.ac == "full",
                gradient_checkpointing_kwargs={"use_reentrant": False},
                optim=OPTIMIZERS[options.optimizer],
                bf16=True,
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
                report_to=[],
            ),
            train_dataset=Tokens(options.seq),
            callbacks=[SecondStep()],
        )
        trainer.train()
    return {"peak_allocated": torch.cuda.max_memory_allocated(), "peak_reserved": torch.cuda.memory_reserved()}
