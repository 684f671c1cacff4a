"""What every part shares: its arguments, what machine it runs on, rows that may fail, and its result as
JSON and Markdown, written whole after every row, so that a part that is cut off leaves what it has."""

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/gpu-bench")
    parser.add_argument("--quick", action="store_true", help="the first rows only, fewer steps")
    parser.add_argument("--seconds", type=float, default=540, help="rows that begin later are left out")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--gpu", help="--gpu of ac-advisor (h200; cpu on a CPU)")
    parser.add_argument("--model", default="llama-3.2-1b", help="a folder of sample_models")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seq", type=int, default=2048)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--second-model", default="llama-3.1-8b", help="speed: its blocks, of which --second-layers")
    parser.add_argument("--second-layers", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=128256, help="loss")
    parser.add_argument("--tokens", type=int, default=16384, help="loss")
    parser.add_argument("--hidden", type=int, default=2048, help="loss")
    parser.add_argument("--cmake-options", default="", help="build")
    a = parser.parse_args()
    a.gpu = a.gpu or ("cpu" if a.device == "cpu" else gpu_here())
    return a


def gpu_here():
    """The device file of the GPU that is there: of its driver's name, and of the memory nearest to its. Ends the
    part where there is none: figures of another GPU than the one that is named are worse than none."""
    try:
        line = output_of(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"], 20).splitlines()[0]
    except Exception as error:
        raise SystemExit(f"no GPU is found (nvidia-smi: {error}); name one with --gpu, or --device cpu")
    name, mebibytes = [word.strip() for word in line.rsplit(",", 1)]
    words = set(name.lower().replace("-", " ").split())
    fitting = []
    for device in devices():
        marks = {mark for mark in device["name"].split("-") if not mark.endswith("gb")}
        if device["kind"] == "gpu" and marks <= words:
            off = abs(device["memory_bytes"]["value"] / 2**20 - float(mebibytes))
            fitting.append((-len(marks), off, device["name"]))
    if not fitting:
        raise SystemExit(f"{name} has no device file; name one with --gpu: {', '.join(d['name'] for d in devices())}")
    return min(fitting)[2]


def devices():
    """The device files, as they are."""
    return [json.loads(path.read_text()) for path in sorted((ROOT / "data/devices").glob("*.json"))]


def device_of(gpu):
    for device in devices():
        if gpu in [device["name"], *device.get("aliases", [])]:
            return device
    return json.loads(pathlib.Path(gpu).read_text())


def config_of(model):
    text = (ROOT / "sample_models" / model / "config.json").read_text()
    return json.loads(text)


def output_of(words, seconds=300):
    """A command's stdout; raises RuntimeError with the end of what it said otherwise."""
    ran = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=seconds)
    if ran.returncode != 0:
        said = (ran.stderr.strip() or ran.stdout.strip())[-600:]
        raise RuntimeError(f"exit code {ran.returncode}: {said}")
    return ran.stdout


def machine():
    facts = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
             "python": platform.python_version(), "cores": os.cpu_count()}
    for name, words in (("gpu", ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit",
                                 "--format=csv,noheader"]),
                        ("nvcc", ["nvcc", "--version"]),
                        ("commit", ["git", "-C", ROOT, "rev-parse", "HEAD"])):
        try:
            facts[name] = output_of(words, 20).strip().splitlines()[-1]
        except Exception as error:  # the reason stands where the fact would
            facts[name] = f"not known: {type(error).__name__}"
    try:
        import torch
        facts["torch"] = torch.__version__
        facts["cuda"] = torch.version.cuda
        facts["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        import transformers
        facts["transformers"] = transformers.__version__
    except Exception as error:
        facts.setdefault("torch", f"not known: {error}")
    return facts


class Part:
    def __init__(self, name, a, title):
        self.name, self.a, self.title = name, a, title
        self.start = time.monotonic()
        self.machine = machine()
        self.rows, self.notes = [], []

    def time_left(self):
        return self.a.seconds - (time.monotonic() - self.start)

    def row(self, label, measure):
        """Adds what `measure()` returns (a dict), or why there is nothing."""
        row = {"row": label}
        if self.time_left() <= 0:
            row["not_run"] = "the part's time was over"
        else:
            try:
                row.update(measure())
            except Exception as error:
                row["failed"] = f"{type(error).__name__}: {error}"
        self.rows.append(row)
        self.write()
        print(f"{self.name}: {label}: " + ", ".join(f"{k} {shown(v)}" for k, v in row.items() if k != "row"), flush=True)
        return row

    def note(self, text):
        self.notes.append(text)

    def worst(self, key):
        values = [abs(r[key]) for r in self.rows if isinstance(r.get(key), (int, float))]
        return max(values) if values else None

    def write(self):
        self.a.out.mkdir(parents=True, exist_ok=True)
        document = {"part": self.name, "title": self.title, "machine": self.machine,
                    "arguments": {k: str(v) for k, v in vars(self.a).items()}, "rows": self.rows, "notes": self.notes}
        whole(self.a.out / f"{self.name}.json", json.dumps(document, indent=1) + "\n")
        keys = list(dict.fromkeys(k for r in self.rows for k in r if k not in ("failed", "not_run")))
        lines = [f"# {self.title}", "", ", ".join(f"{k}: {v}" for k, v in self.machine.items()), ""]
        lines += ["| " + " | ".join(keys + ["remark"]) + " |", "|" + "---|" * (len(keys) + 1)]
        for r in self.rows:
            remark = "failed: " + r["failed"] if "failed" in r else "not run: " + r["not_run"] if "not_run" in r else ""
            cells = [shown(r.get(k)) for k in keys] + [remark.replace("\n", " ").replace("|", "/")[:300]]
            lines.append("| " + " | ".join(cells) + " |")
        lines += [""] + [f"* {n}" for n in self.notes]
        whole(self.a.out / f"{self.name}.md", "\n".join(lines) + "\n")


def shown(value):
    if value is None:
        return "not measured"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def whole(path, text):
    temporary = path.with_suffix(path.suffix + ".tmp")
    temporary.write_text(text)
    temporary.replace(path)


def percent(measured, predicted):
    """Error of the prediction, in % of what was measured."""
    if not measured or predicted is None:
        return None
    return 100.0 * (predicted - measured) / measured
