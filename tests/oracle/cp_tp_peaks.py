"""Peaks and launches of steps whose ranks share both sequences and layers, on the emulated device, as cp_peaks.py has them.

    ac-advisor dryrun --world N --rank R --output /dev/null -- python cp_tp_peaks.py OUTPUT.json [--only LABEL] [--again]

`cp_cases.py --tp` prints which worlds and ranks there are.
"""

import os
import sys

import emulated_peaks
from cp_cases import rank_of, split_layers
from cp_peaks import measure

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(split_layers()), measure, __doc__,
                                 lambda entry: rank_of(entry) == int(os.environ["RANK"])))
