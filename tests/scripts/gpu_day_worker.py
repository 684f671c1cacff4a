"""Stands for gpu_day.worker: no PyTorch, and what can go wrong with a case, by its label."""

import json
import os
import sys
import time

print(json.dumps({"ready": True}), flush=True)
if sys.argv[1] == "never":
    os._exit(1)
for line in sys.stdin:
    job = json.loads(line)
    if "crash" in job["label"]:
        os._exit(139)
    if "hang" in job["label"]:
        time.sleep(60)
    time.sleep(0.02)
    row = {"label": job["label"], "began": time.monotonic() - 0.02, "ended": time.monotonic(), "size": job["case"]["size"]}
    print(json.dumps(row | ({"failed": "out of memory"} if "large" in job["label"] else {"measured": {}})), flush=True)
