"""gate_test.py AC-ADVISOR PYTHON SOURCES: a gate on a PyTorch program, run on an emulated device."""

import json
import os
import subprocess
import sys
import tempfile

advisor, python, sources = sys.argv[1:]
script = os.path.join(sources, "examples", "dryrun", "plain_step.py")


def check(folder, *words):
    return subprocess.run([advisor, "check", *words], cwd=folder, capture_output=True, text=True)


def write(folder, seq):
    command = [python, script, "--tiny", "--batch", "2", "--seq", str(seq), "--steps", "2"]
    limits = {"peak_allocated": {"budget": "1GiB", "regression": {"percent": 1}}, "launches": {"regression": {"launches": 0}}}
    gate = {"schema": "ac-advisor/gate/1", "cases": [{"name": "tiny", "command": command, "gpu": "h100-80gb", "limits": limits}]}
    with open(os.path.join(folder, "ac-advisor.json"), "w") as file:
        json.dump(gate, file)


with tempfile.TemporaryDirectory() as folder:
    write(folder, 128)
    done = check(folder)
    assert done.returncode != 0 and "no baseline" in done.stdout, done
    done = check(folder, "--update")
    assert done.returncode == 0, done
    baseline = json.load(open(os.path.join(folder, "baselines", "tiny.json")))
    assert baseline["fingerprint"]["source"] == "emulated"
    assert baseline["figures"]["peak_allocated_bytes"] > 0 and baseline["figures"]["launches"] > 0
    done = check(folder)
    assert done.returncode == 0, (done.stdout, done.stderr)
    # What the program prints is not in the report.
    assert "peak allocated: " in done.stderr and "peak allocated: " not in done.stdout
    # Another command is another fingerprint, told as that, and what it needs more is told as well.
    write(folder, 256)
    done = check(folder)
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert "command" in done.stdout, done.stdout
print("as it should be")
