"""As emulated_peaks.py, and with adapters as drawn_finetune_peaks.py, of the steps that qwen3_5_cases.py draws, measured
before they were planned.

    ac-advisor dryrun [--world N] --output /dev/null -- python qwen3_5_peaks.py qwen3_5_peaks.json

Needs torchtune 0.6.1's and transformer_engine 2.14.0's files on PYTHONPATH. Neither flash-linear-attention nor
causal-conv1d is installed: gated delta nets run in PyTorch's own ops.
"""

import sys

import drawn_finetune_peaks
import emulated_peaks
import qwen3_5_cases


def measure(entry):
    return (drawn_finetune_peaks if "lora" in entry or "autocast" in entry else emulated_peaks).measure(entry)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(qwen3_5_cases.cases()), measure, __doc__))
