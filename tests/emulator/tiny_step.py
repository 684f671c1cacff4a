"""tiny_step.py AC-ADVISOR PYTHON SOURCES: dryrun of a tiny model, and what must hold of its profile."""

import json
import os
import subprocess
import sys
import tempfile

advisor, python, sources = sys.argv[1:]
script = os.path.join(sources, "examples", "dryrun", "plain_step.py")


def dryrun(*words, options=()):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "profile.json")
        done = subprocess.run(
            [advisor, "dryrun", *options, "--format", "json", "--output", file, "--", *words],
            capture_output=True,
            text=True,
        )
        profile = json.load(open(file)) if os.path.exists(file) else None
        return done, profile


done, profile = dryrun(python, script, "--tiny", "--batch", "2", "--seq", "128", "--steps", "3")
assert done.returncode == 0, done.stderr
assert profile["schema"] == "ac-advisor/profile/2" and profile["source"] == "emulated"
# The program's own words pass through, and its peak is the profile's.
assert done.stdout.startswith("peak allocated: "), done.stdout
assert int(done.stdout.split()[-1]) == profile["memory"]["peak_allocated_bytes"]
steps = profile["steps"]
assert [s["index"] for s in steps] == [0, 1, 2]
# Steps of a steady state are alike, and the optimizer's states come with the first.
assert steps[1]["launches"] == steps[2]["launches"]
assert steps[1]["peak_allocated_bytes"] == steps[2]["peak_allocated_bytes"]
assert steps[0]["peak_allocated_bytes"] <= steps[1]["peak_allocated_bytes"]
assert profile["memory"]["first_step_peak_bytes"] == steps[0]["peak_allocated_bytes"]
assert all(n > 0 for n in steps[1]["launches"].values())
counted = sum(sum(k["launches"].values()) for k in profile["emulation"]["kernels"])
assert 0 < counted <= sum(steps[1]["launches"].values())
# What is not known is absent with its reason, never 0.
assert profile["model"] is None and profile["absent"]["model"]

# An exit code is the program's, and a program without CUDA is not measured.
assert dryrun(python, "-c", "import torch; torch.zeros(1).cuda(); raise SystemExit(7)")[0].returncode == 7
assert dryrun(python, "-c", "pass")[0].returncode == 3

# Out of memory is what PyTorch says on such a device.
done, profile = dryrun(
    python,
    "-c",
    "import torch; torch.empty(100 << 30, dtype=torch.uint8, device='cuda')",
    options=["--gpu", "l40s"],
)
assert done.returncode == 1 and "OutOfMemoryError" in done.stderr, done.stderr
assert profile["emulation"]["out_of_memory"]["requested_bytes"] == 100 << 30
assert not profile["fit"]["fits"]

# What nothing answers for ends the run with its name.
done, _ = dryrun(python, "-c", "import torch; torch.linalg.qr(torch.zeros(3, 3, device='cuda'))")
assert done.returncode == 3 and "does not answer cusolver" in done.stderr, done.stderr
print("as it should be")
