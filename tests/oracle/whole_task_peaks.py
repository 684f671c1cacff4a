"""Writes whole_task_peaks.json: as task_peaks.json, of TRL 1.14's DPOTrainer and KTOTrainer, which make whole logits.

    ac-advisor dryrun [--world 2] -- python whole_task_peaks.py whole_task_peaks.json [--only TEXT]

Needs trl 1.14.1 on PYTHONPATH.
"""

import sys

import trl

import loop_peaks
from task_peaks import measure
from whole_task_cases import CASES

if __name__ == "__main__":
    loop_peaks.measure = measure
    sys.exit(loop_peaks.main(CASES, __doc__, f"trl {trl.__version__}, "))
