"""Writes distillation_peaks.json: as task_peaks.json, of TRL's DistillationTrainer, whose teacher is a model of its own. The
completions are all as long as they may be, by no engine.

    ac-advisor dryrun [--world 2] --output /dev/null -- python distillation_peaks.py distillation_peaks.json [--only TEXT]
"""

import sys
import tempfile

import torch
import trl

import loop_peaks
import task_step
from distillation_cases import ALL_MODELS, CASES
from emulated_peaks import LAUNCHES
from loop_step import DTYPES, parse
from loop_trainer import SecondStep, arguments


def settings(options, folder):
    off = {"gradient_checkpointing": False} if options.ac == "none" else {}
    return trl.DistillationConfig(max_completion_length=options.completion, **off, **arguments(options, folder))


def measure(student, words):
    """Figures of the second step, which has moments; reserved memory is that of both."""
    options = parse(words)
    dtype = DTYPES[options.param_dtype]
    model = task_step.build(ALL_MODELS[student], options, dtype, options.quantize != "none")
    teacher = task_step.build(ALL_MODELS[options.teacher], options, dtype, False)
    torch.cuda.empty_cache()
    with tempfile.TemporaryDirectory() as folder:
        trainer = task_step.written_out(trl.DistillationTrainer)(
            model, teacher, args=settings(options, folder), processing_class=task_step.words_tokenizer(),
            peft_config=task_step.adapters(options), train_dataset=task_step.prompts(options), callbacks=[SecondStep()])
        trainer.train()
    second = next(c for c in trainer.callback_handler.callbacks if isinstance(c, SecondStep))
    return {"peak_allocated": torch.cuda.max_memory_allocated(), "peak_reserved": torch.cuda.memory_reserved(),
            "launches": {"step": [n - apart for n, apart in zip(second.launches, trainer.between or [0] * len(LAUNCHES))]}}


if __name__ == "__main__":
    loop_peaks.measure, loop_peaks.MODELS = measure, ALL_MODELS
    sys.exit(loop_peaks.main(CASES, __doc__, f"trl {trl.__version__}, "))
