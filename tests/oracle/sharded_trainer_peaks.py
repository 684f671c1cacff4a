"""Writes sharded_trainer_peaks.json: as task_peaks.json, of TRL's trainers (SFTTrainer too) under DeepSpeed's ZeRO 3 and under
FSDP2 by accelerate.

    python sharded_trainer_peaks.py --list
    ac-advisor dryrun --world N --output /dev/null -- python sharded_trainer_peaks.py sharded_trainer_peaks.json --case K

Each case runs in a process of its own, as an engine leaves hooks behind. --list prints world and number of each. The model is
made as the trainers make it: under deepspeed.zero.Init; for FSDP2 on the host. Of steps whose completions are scored, the peaks
of those forwards are apart, as in scoring_peaks.json.
"""

import argparse
import os
import sys

from loop_cases import with_case
from sharded_trainer_cases import CASES


def by_accelerate():
    """What `accelerate launch` sets from a configuration file with fsdp_version: 2."""
    os.environ.update({
        "ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_RESHARD_AFTER_FORWARD": "true",
        "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP", "FSDP_CPU_RAM_EFFICIENT_LOADING": "false",
        "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT", "FSDP_ACTIVATION_CHECKPOINTING": "false",
        "ACCELERATE_MIXED_PRECISION": "bf16"})


def measure(model, words):
    import transformers

    import loop_peaks
    from loop_step import DTYPES, parse
    from loop_trainer import SecondStep, arguments, measure_trainer
    from task_step import measure_task

    options = parse(words)
    if options.ref == "precomputed" and options.shard == "zero3":
        SecondStep.number = 2  # what computes them is an engine, too, whose trace is complete one step later
    if options.shard == "fsdp2":
        by_accelerate()
    else:  # the trainers' arguments are there before a model is: it is made under deepspeed.zero.Init
        known = transformers.TrainingArguments(bf16=True, **arguments(options, "unused"))  # noqa: F841
    if options.task == "sft":
        return measure_trainer(loop_peaks.MODELS[model], options, DTYPES[options.param_dtype])
    if options.task == "distillation":
        import distillation_peaks

        return distillation_peaks.measure(model, words)
    if options.task in ("grpo", "rloo"):
        import scoring_peaks

        return scoring_peaks.measure(model, words)
    return measure_task(loop_peaks.MODELS[model], options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--case", type=int)
    given = parser.parse_args()
    if given.list:
        for number, (_, words) in enumerate(CASES):
            print(words.split()[1], number)
        return
    import deepspeed
    import trl

    import loop_peaks
    from distillation_cases import ALL_MODELS

    loop_peaks.MODELS = ALL_MODELS
    model, words = CASES[given.case]
    figures = measure(model, words)
    loop_peaks.write(given.output, with_case(given.output, CASES, model, words, figures),
                     f"trl {trl.__version__}, DeepSpeed {deepspeed.__version__}, ")
    print(model, words, figures, flush=True)


if __name__ == "__main__":
    sys.exit(main())
