"""measure_test.py AC-ADVISOR: our own trainer's step on an emulated device beside its plan."""

import json
import subprocess
import sys

advisor = sys.argv[1]
STEP = ["tiny-llama", "--gpu", "h100-80gb", "--batch", "2", "--seq", "64"]
# One workspace of cuBLAS is 32 MiB; what its handle rounds to is in it.
ALLOCATOR_BLOCK = 2 << 20


def run(*words):
    return subprocess.run([advisor, "measure", *STEP, *words], capture_output=True, text=True)


def measured(*words):
    done = run("--emulated", "--format", "json", *words)
    assert done.returncode == 0, (words, done.stderr)
    return json.loads(done.stdout)


def planned(*words):
    done = run("--emulated", "--format", "csv", *words)
    assert done.returncode == 0, (words, done.stderr)
    header, row = (line.split(",") for line in done.stdout.splitlines()[:2])
    return dict(zip(header, row))


MODES = ["none", "full", "selective", "attention", "grouped:2", "every:2", "sqrt"]
peaks = {}
for ac in MODES:
    for more in ([], ["--loss", "lc-ce", "--kernels", "fused"], ["--shard", "fsdp2", "--world", "8"]):
        figures = planned("--ac", ac, *more)
        assert figures["measured_excluding_workspace_bytes"] == figures["predicted_excluding_workspace_bytes"], figures
        assert figures["step_seconds"] == "", figures
        peaks[ac, *more] = int(figures["measured_excluding_workspace_bytes"])
assert peaks["full",] < peaks["none",], peaks

segments = run("--emulated", "--alloc-conf", "expandable_segments:True").stdout
assert any(line.startswith("peak reserved") and line.endswith("=") for line in segments.splitlines()), segments

profile = measured("--ac", "full")
profile = profile.get("measured", profile)
assert profile["source"] == "emulated" and profile["time"] is None and profile["numerics"] is None, profile
assert profile["absent"]["time"] == "an emulated device computes nothing"
launches = profile["kernels"]["launches"]
plain = measured("--ac", "none")
plain = plain.get("measured", plain)["kernels"]["launches"]
# The forward's kernels run once more, but for what no gradient needs.
assert plain["recompute"] == 0 and 0 < launches["recompute"] <= launches["forward"], (plain, launches)
assert launches["forward"] == plain["forward"] and launches["optimizer"] == plain["optimizer"], (plain, launches)

for words, told in ((["--emulated", "--trace"], "--emulated --trace"), (["--emulated", "--procs", "2"], "--emulated --procs"),
                    (["--emulated", "--resume"], "--emulated --resume"),
                    (["--emulated", "--gpu", "cpu"], "--emulated with --gpu cpu")):
    done = run(*words)
    assert done.returncode == 2 and told in done.stderr and not done.stdout, (words, done)
print("as it should be")
