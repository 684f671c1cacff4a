"""What this machine is, and which device file describes its GPU."""

import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
PACKED = ROOT / "bench/gpu/packed"


def said(words, seconds=20):
    """A command's first line, or the reason why there is none."""
    try:
        ran = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=seconds)
        lines = (ran.stdout.strip() or ran.stderr.strip()).splitlines()
        return lines[-1] if lines else f"exit code {ran.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"not known: {type(error).__name__}"


def commit():
    packed = PACKED / "commit"
    return packed.read_text().strip() if packed.exists() else said(["git", "-C", ROOT, "rev-parse", "HEAD"])


def versions():
    import importlib.metadata
    found = {"python": platform.python_version()}
    for package in ("torch", "triton", "transformers", "peft", "nvidia-cudnn-cu13", "nvidia-nccl-cu13", "nvidia-cublas"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def facts():
    query = "name,driver_version,memory.total,clocks.max.sm,power.limit,clocks.sm,temperature.gpu"
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "commit": commit(),
            "gpu": said(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]), "cpu": cpu,
            "cores": os.cpu_count(), "nvcc": said(["nvcc", "--version"]), "executable": sys.executable} | versions()


def devices():
    return [json.loads(path.read_text()) for path in sorted((ROOT / "data/devices").glob("*.json"))]


def device_file_of(name, mebibytes):
    """The device file whose name's words are all the driver's too, of the memory nearest to its."""
    words = set(name.lower().replace("-", " ").split())
    fitting = []
    for device in devices():
        marks = {mark for mark in device["name"].split("-") if not mark.endswith("gb")}
        if device["kind"] == "gpu" and marks <= words:
            off = abs(device["memory_bytes"]["value"] / 2**20 - mebibytes)
            fitting.append((-len(marks), off, device["name"]))
    return min(fitting)[2] if fitting else None


def gpu_here():
    """The name of this GPU's device file, and its memory in bytes; figures of another GPU are worse than none."""
    line = said(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"])
    name, _, mebibytes = line.rpartition(",")
    if not mebibytes.strip().isdigit():
        raise SystemExit(f"error: no GPU is found (nvidia-smi: {line}); --emulated tries the script without one")
    found = device_file_of(name, float(mebibytes))
    if found is None:
        raise SystemExit(f"error: {name} has no device file; there are {', '.join(d['name'] for d in devices())}")
    return found, int(mebibytes) << 20
