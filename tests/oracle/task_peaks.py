"""Writes task_peaks.json: as loop_peaks.json, of preference tuning and reward models by TRL's own trainers.

    ac-advisor dryrun [--world 2] -- python task_peaks.py task_peaks.json [--only TEXT]
"""

import sys

import trl

import loop_peaks
from loop_step import parse
from task_cases import CASES
from task_step import measure_task


def measure(model, words):
    return measure_task(loop_peaks.MODELS[model], parse(words))


if __name__ == "__main__":
    loop_peaks.measure = measure
    sys.exit(loop_peaks.main(CASES, __doc__, f"trl {trl.__version__}, "))
