"""As drawn_finetune_peaks.py and compile_peaks.py, of the steps that named_families_cases.py draws; those under FSDP2 in a
process each (--only "model=NAME "), and those that are compiled apart.

    ac-advisor dryrun [--world N] --output /dev/null -- python named_families_peaks.py named_families_peaks.json [--compiled]

Needs torchtune 0.6.1's and transformer_engine 2.14.0's files on PYTHONPATH.
"""

import sys

import drawn_finetune_peaks
import emulated_peaks
from drawn_finetune_peaks import PLAIN_MODEL
from named_families_cases import named_families_cases

import compile_peaks  # noqa: E402  after what it puts its own in the place of


def measure(entry):
    emulated_peaks.model_of = PLAIN_MODEL
    return compile_peaks.measure(entry) if "kernels" in entry else drawn_finetune_peaks.measure(entry)


if __name__ == "__main__":
    compiled = "--compiled" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--compiled"]
    sys.exit(emulated_peaks.main(named_families_cases(), measure, __doc__, lambda entry: ("kernels" in entry) == compiled))
