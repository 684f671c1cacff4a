"""The cases of --framework hf-trainer and trl: transformers.Trainer itself, TRL's SFTTrainer itself; bf16=True, or fp16=True, over
the parameters' own dtype."""

import tempfile

import datasets
import peft
import tokenizers
import torch
import transformers
import trl

import adapter_step
from ac_advisor_dryrun import emulator
from emulated_peaks import LAUNCHES

OPTIMIZERS = {"adamw": "adamw_torch_fused", "adamw-8bit": "adamw_bnb_8bit", "adafactor": "adafactor", "sgd": "sgd",
              "adamw-foreach": "adamw_torch", "paged-adamw": "paged_adamw_32bit", "paged-adamw-8bit": "paged_adamw_8bit",
              "lion": "lion_32bit"}


class Tokens(torch.utils.data.Dataset):
    """Rows of one length, enough for two steps."""

    def __init__(self, seq, count, packed=False):
        self.row, self.count = torch.zeros(seq, dtype=torch.int64), count
        if packed:  # which its collator adds to a list
            self.row = self.row.tolist()

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return {"input_ids": self.row, "labels": self.row}


class SecondStep(transformers.TrainerCallback):
    """The peak of allocated memory from the second step's begin on, and what that step launches. (`number` 2: the third's.)"""

    number = 1

    def on_step_begin(self, args, state, control, **_):
        if state.global_step == self.number:
            torch.cuda.reset_peak_memory_stats()
            self.before = emulator.counts()

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.number + 1:
            self.launches = [emulator.counts()[a][0] - self.before[a][0] for a in LAUNCHES]


def document(options):
    """Tokens of what attends to itself: documents are of one length."""
    return options.batch * options.seq // options.packing if options.packing else options.seq


def rows_of(options):
    """A last step that the data end in would have fewer micro-batches."""
    return max(64, (SecondStep.number + 1) * options.batch * options.grad_accum * options.world)


def arguments(options, folder):
    """What a user sets, and what keeps a short run silent."""
    return {
        "output_dir": folder,
        "max_steps": SecondStep.number + 1,
        "per_device_train_batch_size": options.batch if options.framework == "trl" or not options.packing
        else options.packing,
        "gradient_accumulation_steps": options.grad_accum,
        "optim": OPTIMIZERS[options.optimizer],
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
        "report_to": [],
    } | ({"deepspeed": deepspeed_settings(options)} if options.shard.startswith("zero") else {})


def deepspeed_settings(options):
    """What transformers' documentation gives for a trainer, which fills in the rest."""
    return {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
            "gradient_clipping": "auto", "bf16": {"enabled": "auto"}, "zero_allow_untested_optimizer": True,
            "zero_optimization": {"stage": int(options.shard[-1])}}


def hf_trainer(model, options, folder):
    checkpointing = {"gradient_checkpointing": options.ac == "full",
                     "gradient_checkpointing_kwargs": {"use_reentrant": False}}
    if options.router_aux_loss != "auto":
        model.config.output_router_logits = options.router_aux_loss == "on"
    if options.lora:
        model = peft.get_peft_model(model, lora_config(options))
    batch = {}
    if options.packing:  # which flattens a batch of documents
        batch["data_collator"] = transformers.DataCollatorWithFlattening(return_flash_attn_kwargs=True)
    return transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(**{options.autocast or "bf16": True}, **checkpointing, **arguments(options, folder)),
        train_dataset=Tokens(document(options), rows_of(options), options.packing > 0),
        **batch,
        callbacks=[SecondStep()],
    )


def lora_config(options):
    targets = options.lora_targets
    return peft.LoraConfig(
        r=options.lora, lora_alpha=2 * options.lora, task_type="CAUSAL_LM", lora_dropout=options.lora_dropout,
        use_dora=options.dora,
        target_modules=None if not targets else targets if targets == "all-linear" else targets.split(","))


def word_tokenizer():
    """Nothing is tokenized: the trainer wants one for its padding and end."""
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<pad>": 0, "<eos>": 1, "<unk>": 2}, unk_token="<unk>"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>",
                                                unk_token="<unk>")


def router_loss(options):
    """An argument of TRL's trainers."""
    return {} if options.router_aux_loss == "auto" else {"router_aux_loss_coef": 0.001 if options.router_aux_loss == "on" else 0.0}


def sft_trainer(model, options, folder, **more):
    """SFTConfig's own defaults, but for its length. Packed, rows of --seq tokens are flattened by the collator."""
    length = document(options)
    rows = datasets.Dataset.from_dict({"input_ids": [[2] * length] * (rows_of(options) * options.seq // length)})
    off = {"gradient_checkpointing": False} if options.ac == "none" else {}
    off |= router_loss(options)
    return trl.SFTTrainer(
        model=model,
        args=trl.SFTConfig(max_length=options.seq, packing=options.packing > 0, **off, **more, **arguments(options, folder)),
        train_dataset=rows,
        processing_class=word_tokenizer(),
        peft_config=lora_config(options) if options.lora else None,
        callbacks=[SecondStep()],
    )


def build(config, options, dtype):
    config = transformers.AutoConfig.for_model(**config)
    flash = options.packing and options.attn == "flash"
    eager = config.model_type == "gpt_oss"  # has no other in transformers
    config._attn_implementation = "flash_attention_2" if flash else "eager" if eager else "sdpa"
    quantized = options.quantize != "none"
    # DeepSpeed casts and places a model that is still on the host.
    with torch.device("meta" if quantized else "cpu" if options.shard.startswith("zero") else "cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    if quantized:
        adapter_step.quantize(model, options.quantize)
        adapter_step.materialize(model)
    return model.train()


def measure_trainer(config, options, dtype, **more):
    """`more`: of SFTConfig."""
    model = build(config, options, dtype)
    torch.cuda.empty_cache()
    make = sft_trainer if options.framework == "trl" else hf_trainer
    with tempfile.TemporaryDirectory() as folder:
        trainer = make(model, options, folder, **more)
        trainer.train()
    second = next(c for c in trainer.callback_handler.callbacks if isinstance(c, SecondStep))
    return {"peak_allocated": torch.cuda.max_memory_allocated(), "peak_reserved": torch.cuda.memory_reserved(),
            "launches": {"step": second.launches}}
