"""Peaks and launches of steps whose ranks share experts, on the emulated device, as emulated_peaks.py has them.

    ac-advisor dryrun --world N --output /dev/null -- python ep_peaks.py OUTPUT.json [--only LABEL] [--again]

Runs the cases of ep_cases.py that have this world; those with replicas in a process of their own, by --only hsdp, as
tp_peaks.py does.
"""

import sys

import emulated_peaks
import ep_step
from ep_cases import all_cases
from tp_peaks import mine


def measure(entry):
    ep_step.keep_all_to_all()
    return emulated_peaks.measure(entry, ep_step.build)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(all_cases()), measure, __doc__, mine))
