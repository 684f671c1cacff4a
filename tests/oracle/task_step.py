"""The steps of --task: TRL's own DPOTrainer, RewardTrainer, ORPOTrainer and CPOTrainer (SimPO), with their own defaults."""

import os
import tempfile

import datasets
import peft
import tokenizers
import torch
import transformers
import trl

import adapter_step
from loop_step import DTYPES
from loop_trainer import SecondStep, arguments, lora_config, rows_of

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")


def words_tokenizer():
    """A word a token."""
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"<pad>": 0, "<eos>": 1, "<unk>": 2, "w": 3}, unk_token="<unk>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>",
                                                unk_token="<unk>")


def pairs(options):
    """Rows of --seq tokens, --prompt of them the prompt's, the last the end that the trainers add."""
    text = {"prompt": "w " * options.prompt, "chosen": "w " * (options.seq - options.prompt - 1),
            "rejected": "w " * (options.seq - options.prompt - 1)}
    if options.task == "reward":
        text = {"chosen": text["prompt"] + text["chosen"], "rejected": text["prompt"] + text["rejected"]}
    return datasets.Dataset.from_list([text] * rows_of(options))


def build(config, options, dtype, quantized):
    config = transformers.AutoConfig.for_model(**config)
    config._attn_implementation = "eager" if options.attn == "eager" else "sdpa"
    kind, more = transformers.AutoModelForCausalLM, {}
    if options.task == "reward":
        kind, config.num_labels = transformers.AutoModelForSequenceClassification, 1
    on_host = options.shard.startswith("zero") or options.shard.startswith("fsdp")
    with torch.device("meta" if quantized else "cpu" if on_host else "cuda"):
        model = kind.from_config(config, dtype=dtype, **more)
    if quantized:
        adapter_step.quantize(model, options.quantize)
        adapter_step.materialize(model)
    return model.train()


def adapters(options):
    if not options.lora:
        return None
    config = lora_config(options)
    if options.task == "reward":  # what RewardTrainer's own documentation gives
        config.task_type, config.modules_to_save = "SEQ_CLS", ["score"]
    return config


def common(options, folder):
    off = {"gradient_checkpointing": False} if options.ac == "none" else {}
    if options.offload == "activations":
        off["activation_offloading"] = True
    return {"max_length": options.seq} | off | arguments(options, folder)


def make_trainer(model, config, options, folder):
    dtype = DTYPES[options.param_dtype]
    more = {"processing_class": words_tokenizer(), "peft_config": adapters(options), "train_dataset": pairs(options),
            "callbacks": [SecondStep()]}
    if options.task == "dpo":
        precomputed = options.ref == "precomputed"
        reference = build(config, options, dtype, False) if options.ref == "model" else None
        return trl.DPOTrainer(model, reference, args=trl.DPOConfig(
            precompute_ref_log_probs=precomputed, **common(options, folder)), **more)
    if options.task == "reward":
        return trl.RewardTrainer(model, args=trl.RewardConfig(**common(options, folder)), **more)
    if options.task == "orpo":
        from trl.experimental.orpo import ORPOConfig, ORPOTrainer

        return ORPOTrainer(model, args=ORPOConfig(**common(options, folder)), **more)
    from trl.experimental.cpo import CPOConfig, CPOTrainer

    return CPOTrainer(model, args=CPOConfig(loss_type="simpo", cpo_alpha=0.0, **common(options, folder)), **more)


def measure_task(config, options):
    """Figures of the second step, which has moments; reserved memory is that of both."""
    if options.task == "dpo" and options.ref is None:
        options.ref = "adapter" if options.lora else "model"
    model = build(config, options, DTYPES[options.param_dtype], options.quantize != "none")
    torch.cuda.empty_cache()
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(model, config, options, folder)
        trainer.train()
    second = next(c for c in trainer.callback_handler.callbacks if isinstance(c, SecondStep))
    return {"peak_allocated": torch.cuda.max_memory_allocated(), "peak_reserved": torch.cuda.memory_reserved(),
            "launches": {"step": second.launches}}
