"""Writes llamafactory_peaks.json: as task_peaks.json, of LLaMA-Factory 0.9.5's stages by its own workflows: sft, dpo (sigmoid,
orpo, simpo), kto and rm.

    ac-advisor dryrun --output /dev/null -- python llamafactory_peaks.py llamafactory_peaks.json [--only TEXT]

Its own parser reads what a YAML file would say. Models are made on the device in the dtype that a checkpoint in bf16 has, and
rows of one length take the place of a dataset: no weights, tokenizers or files are read.
"""

import contextlib
import importlib
import importlib.metadata
import os
import sys
import tempfile

os.environ["DISABLE_VERSION_CHECK"] = "1"

import bitsandbytes
import datasets
import torch
import transformers
from transformers.utils import import_utils

tells = import_utils._is_package_available
# trl 0.24 takes a truth, as it is in transformers 4
import_utils._is_package_available = lambda name, return_version=False: (
    tells(name, True) if return_version else tells(name)[0])
import trl.import_utils  # noqa: E402, F401

import_utils._is_package_available = tells

import peft.tuners.lora.torchao  # noqa: E402

peft.tuners.lora.torchao.is_torchao_available = lambda: False  # peft 0.18 knows an older one

import adapter_step
import loop_peaks
from llamafactory.hparams import get_train_args
from llamafactory.model import loader
from llamafactory.train import trainer_utils
from llamafactory_cases import CASES
from loop_step import parse
from loop_trainer import LAUNCHES, OPTIMIZERS, SecondStep, rows_of  # noqa: F401
from task_step import words_tokenizer

STAGES = {"reward": "rm", "orpo": "dpo", "simpo": "dpo"}


def settings(options, folder):
    """What a training file says."""
    full = not options.lora
    pure = options.autocast == "none"
    said = {
        "stage": STAGES.get(options.task, options.task), "do_train": True, "model_name_or_path": "unused", "template": "empty",
        "dataset": "unused", "finetuning_type": "full" if full else "lora", "cutoff_len": options.seq,
        "pure_bf16" if pure else "bf16": True, "disable_gradient_checkpointing": options.ac == "none",
        "use_reentrant_gc": not options.no_ac_reentrant, "output_dir": folder, "max_steps": SecondStep.number + 1,
        "per_device_train_batch_size": options.batch, "gradient_accumulation_steps": options.grad_accum,
        "optim": OPTIMIZERS[options.optimizer], "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True,
        "report_to": "none",
    }
    if said["stage"] == "dpo":
        said["pref_loss"] = {"dpo": "sigmoid"}.get(options.task, options.task)
    if not full:
        said |= {"lora_rank": options.lora, "lora_target": "all"}
    if options.quantize != "none":
        said |= {"quantization_bit": 8 if options.quantize == "int8" else 4, "quantization_type": "nf4",
                 "double_quantization": options.quantize == "nf4-double"}
    return said


def rows(options):
    """Answers of --seq tokens less the prompt's, whose labels are -100."""
    row = [3] * options.seq
    labels = [-100] * options.prompt + row[options.prompt:]
    one = {"input_ids": row, "attention_mask": [1] * options.seq, "labels": labels}
    if options.task == "kto":
        one |= {f"kl_{key}": value for key, value in one.items()}
    elif options.task != "sft":
        one = {f"{side}_{key}": value for side in ("chosen", "rejected") for key, value in one.items()}
    count = rows_of(options)
    columns = {key: [value] * count for key, value in one.items()} | {k: [None] * count for k in ("images", "videos", "audios")}
    if options.task == "kto":
        columns["kto_tags"] = [i % 2 == 0 for i in range(count)]
    return {"train_dataset": datasets.Dataset.from_dict(columns)}


def made(config, options):
    """In place of from_pretrained: on the device, as a checkpoint in bf16 would be loaded."""

    def from_pretrained(config, quantization_config=None, **_):
        quantized = quantization_config is not None
        with torch.device("meta" if quantized else "cuda"):
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        if quantized:
            adapter_step.quantize(model, options.quantize)
            adapter_step.materialize(model)
        torch.cuda.empty_cache()
        return model

    def load_config(_):
        return transformers.AutoConfig.for_model(**config, dtype=torch.bfloat16)

    return from_pretrained, load_config


@contextlib.contextmanager
def stood_in(workflow, config, options):
    from_pretrained, load_config = made(config, options)
    before = loader.AutoModelForCausalLM, loader.load_config
    loader.AutoModelForCausalLM = type("Made", (), {"from_pretrained": staticmethod(from_pretrained)})
    loader.AutoModelForCausalLM._model_mapping = before[0]._model_mapping
    loader.load_config = load_config
    for module in (workflow, trainer_utils):
        module.load_tokenizer = lambda *_: {"tokenizer": words_tokenizer(), "processor": None}
    workflow.get_dataset = lambda *_, **__: rows(options)
    for name in ("create_modelcard_and_push", "fix_valuehead_checkpoint"):
        setattr(workflow, name, lambda *_: None)
    try:
        yield
    finally:
        loader.AutoModelForCausalLM, loader.load_config = before


def measure(name, words):
    """Figures of the second step, which has moments; reserved memory is that of both."""
    options = parse(words)
    stage = STAGES.get(options.task, options.task)
    workflow = importlib.import_module(f"llamafactory.train.{stage}.workflow")
    second = SecondStep()
    with tempfile.TemporaryDirectory() as folder, stood_in(workflow, loop_peaks.MODELS[name], options):
        model_args, data_args, training_args, finetuning_args, generating_args = get_train_args(settings(options, folder))
        transformers.Trainer.save_model = lambda *_, **__: None
        transformers.Trainer.save_state = lambda *_, **__: None
        more = [generating_args] if stage == "sft" else []
        peaks = {}

        class Measured(transformers.TrainerCallback):
            def on_train_end(self, *_, **__):
                peaks.update(peak_allocated=torch.cuda.max_memory_allocated(), peak_reserved=torch.cuda.memory_reserved())

        getattr(workflow, f"run_{stage}")(model_args, data_args, training_args, finetuning_args, *more,
                                          callbacks=[second, Measured()])
    bitsandbytes.optim.GlobalOptimManager.get_instance().initialize()  # it knows modules by then
    return peaks | {"launches": {"step": second.launches}}


if __name__ == "__main__":
    loop_peaks.measure = measure
    import peft
    import trl

    sys.exit(loop_peaks.main(CASES, __doc__, f"LLaMA-Factory {importlib.metadata.version('llamafactory')}, "
                                             f"trl {trl.__version__}, peft {peft.__version__}, "))
