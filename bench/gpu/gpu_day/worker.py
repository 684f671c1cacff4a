"""Measures cases of one script and one world, which come by line on stdin; a JSON line goes out for each.

    python -m gpu_day.worker SCRIPT WORLD

Ends where the device is of no more use; the run starts another one.
"""

import json
import os
import sys
import time


def main():
    script, world = sys.argv[1], int(sys.argv[2])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the libraries say is no result
    os.environ["WORLD_SIZE"] = "1"  # one process, whatever stands around it

    import emulated_peaks
    import torch

    from . import oracle

    torch.ones((), device="cuda")
    if world > 1:
        os.environ["WORLD_SIZE"] = str(world)
        oracle.start_ranks(world)

    def say(row):
        out.write(json.dumps(row) + "\n")
        out.flush()

    say({"ready": True, "torch": torch.__version__})
    for line in sys.stdin:
        job = json.loads(line)
        start, fatal = time.monotonic(), False
        row = {"label": job["label"]}
        try:
            emulated_peaks.nothing_left()
            row["measured"] = oracle.measure(script, job["case"], job["launches"])
        except torch.OutOfMemoryError as error:
            row["failed"] = f"out of memory: {str(error)[:200]}"
        except BaseException as error:  # noqa: BLE001  an assertion of what is left over, an illegal access
            row["failed"] = f"{type(error).__name__}: {str(error)[:400]}"
            fatal = True
        row["seconds"] = round(time.monotonic() - start, 2)
        say(row)
        if fatal:
            os._exit(3)


main()
