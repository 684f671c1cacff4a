"""As emulated_peaks.py, of the steps that drawn_cases.py draws.

    ac-advisor dryrun [--world N] --output /dev/null -- python drawn_peaks.py drawn_peaks.json
"""

import sys

import emulated_peaks
from drawn_cases import drawn_cases

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(drawn_cases()), about=__doc__))
