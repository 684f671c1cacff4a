"""As limit_peaks.py, of steps that it does not have: drawn when the walk with a limit was done, before they were planned.

    until ac-advisor dryrun [--world N] --output /dev/null -- python limit_drawn_peaks.py limit_drawn_peaks.json; do [ $? = 3 ] || break; done

Two of each layout and allocator setting, each at two of the four limits.
"""

import json
import os
import random
import sys

import limit_peaks
from emulated_cases import label


def cases():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "limit_peaks.json")) as file:
        known = {label(c["case"]) for c in json.load(file)["cases"]}
    draw, found, layouts = random.Random(4812), {}, {}
    for case in limit_peaks.drawn(0.02, 1 << 30, 8, draw):
        entry, shares = case["case"], draw.sample(limit_peaks.SHARES, 2)
        layout = entry.get("shard", "none"), entry.get("alloc_conf", ""), entry.get("world", 1)
        if label(entry) in known or layouts.get(layout, 0) == 2:
            continue
        layouts[layout] = layouts.get(layout, 0) + 1
        found[label(entry)] = entry, case["peak_allocated"], case["peak_reserved"], shares
    return found


if __name__ == "__main__":
    sys.exit(limit_peaks.main(cases(), __doc__))
