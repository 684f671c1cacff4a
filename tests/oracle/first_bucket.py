"""When NCCL's watchdog looks at what DistributedDataParallel has reduced first.

Until the second step DDP has its gradients in one bucket, which the process group holds until its watchdog (every 100 ms)
has seen the reduction end and the next collective begins. On a GPU that is chance: between the reduction's end and the
making of the new buckets lies the optimizer's step, milliseconds. Where the watchdog looks later, as is planned, both are
there until the first reduction of the next backward, long after. So that each run tells the same, the emulated device
holds the watchdog's looks until that backward begins, and the step waits there until it has looked.
"""

import atexit
import time

from ac_advisor_dryrun import emulator

LOOKS_EVERY = 0.1  # seconds: torch 2.11, ProcessGroupNCCL.hpp, kWatchdogThreadSleepMillis

atexit.register(emulator.hold_watchdog, False)  # a process group that ends waits for it


class FirstBucket:
    def __init__(self, entry):
        reduces_last = entry.get("grad_accum", 1) if entry.get("no_sync") else 1
        self.left = 1 + reduces_last if entry.get("shard") == "ddp" else 0  # backwards
        emulator.hold_watchdog(self.left > 0)

    def enter(self, phase):
        if phase != "backward" or self.left == 0:
            return
        self.left -= 1
        if self.left == 0:
            emulator.hold_watchdog(False)
            time.sleep(3 * LOOKS_EVERY)
