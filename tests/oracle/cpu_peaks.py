"""Peaks of real training steps on CPU tensors, exact to the byte, with no dispatch mode.

pytorch_peaks.py sees every gradient summed out of place, because a dispatch mode is active. Here a
counting allocator stands below PyTorch instead, so these are the bytes of an ordinary step (no 512 B
rounding; a CPU kernel's own scratch counts too). Tiny models, one thread, no oneDNN.

    cpu_peaks.py OUTPUT.json [--only LABEL]
    cpu_peaks.py --check cpu_peaks.json
    cpu_peaks.py --trace LABEL FILE
"""

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile

import torch
import transformers

from generate_peaks import TINY_FAMILIES, case, label
from storage_tracker import PHASES
from training_step import DEFAULTS, build, make_optimizer, train_step

HERE = os.path.dirname(os.path.abspath(__file__))


def load_allocator():
    torch_home = os.path.dirname(torch.__file__)
    library = os.path.join(tempfile.mkdtemp(), "counting_allocator.so")
    subprocess.run(["g++", "-std=c++20", "-O2", "-shared", "-fPIC", "-I", f"{torch_home}/include",
                    f"{HERE}/counting_allocator.cpp", "-L", f"{torch_home}/lib", "-lc10", "-ltorch_cpu",
                    "-o", library], check=True)
    allocator = ctypes.CDLL(library)
    allocator.live_bytes.restype = allocator.peak_bytes.restype = ctypes.c_int64
    allocator.peak_op.restype = ctypes.c_char_p
    allocator.install()
    return allocator


class PhasePeaks:
    def __init__(self, allocator):
        self.allocator = allocator
        self.start_step()

    def start_step(self):
        self.phase = None
        self.peaks = dict.fromkeys(PHASES, 0)
        self.at = {}
        self.live_at = {}  # bytes alive when the phase begins

    def enter_phase(self, phase):
        """None ends the step."""
        if self.phase:
            peak = self.allocator.peak_bytes()
            if peak > max(self.peaks.values()):
                self.at = {"op": self.allocator.peak_op().decode(), "phase": self.phase}
            self.peaks[self.phase] = max(self.peaks[self.phase], peak)
        self.allocator.reset_peak()
        self.phase = phase
        if phase:
            self.live_at[phase] = self.allocator.live_bytes()
            self.allocator.note(phase.encode())

    def figures(self):
        return {"peak_bytes": max(self.peaks.values()), **{f"peak_{p}": self.peaks[p] for p in PHASES},
                "peak_at": self.at, **{f"live_at_{p}": self.live_at[p] for p in PHASES}}


def measure(entry, allocator, trace=None):
    entry = DEFAULTS | entry
    peaks = PhasePeaks(allocator)
    outside = allocator.live_bytes()
    torch.manual_seed(0)
    step = build(entry, None, on_loss=lambda: peaks.enter_phase("loss"))
    optimizer = make_optimizer(entry, step)
    vocabulary = entry["config"]["vocab_size"]
    ids, labels = (torch.randint(vocabulary, (entry["batch"], entry["seq"])) for _ in range(2))
    kept = []
    gc.collect()
    assert outside == 0, f"{outside} bytes of an earlier case are alive"
    gc.disable()
    for number in range(2):
        gc.collect()
        peaks.start_step()
        if trace and number == 1:
            allocator.start_log()
        train_step(entry, step, optimizer, ids, labels, peaks.enter_phase, kept)
        peaks.enter_phase(None)
        if trace and number == 1:
            allocator.write_log(trace.encode())
        optimizer.zero_grad(set_to_none=True)
    gc.enable()
    return peaks.figures()


def all_cases():
    for dtype in ("fp32", "bf16"):
        for name in ("llama", "untied", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "mixtral", "qwen3_moe"):
            values = {"model_type": name} | TINY_FAMILIES[name]
            for ac in ("none", "full", "seg2", "selop"):
                for loss in ("hf", "chunk"):
                    for attn in ("eager", "sdpa"):
                        gemma = name.startswith("gemma") and (ac == "seg2" or attn == "sdpa")
                        softcap = name == "gemma2" and loss == "chunk"
                        if not (gemma or softcap):
                            yield case("tiny_" + name, values, 2, 32, ac, loss, param_dtype=dtype, attn=attn)
        llama = {"model_type": "llama"} | TINY_FAMILIES["llama"]
        for more in ({"optimizer": "foreach"}, {"optimizer": "sgd"}, {"loss": "hf_nokeep"}, {"grad_accum": 2},
                     {"grad_accum": 2, "loss": "chunk"}, {"ac": "every2"}, {"batch": 3, "seq": 25}):
            yield case("tiny_llama", llama, **({"batch": 2, "seq": 32, "param_dtype": dtype, "attn": "eager"} | more))


def check(path, allocator):
    with open(path) as file:
        cases = json.load(file)["cases"]
    differing = 0
    for expected in cases:
        got = measure(expected, allocator)
        wrong = [f"{key} {got[key]}, expected {expected[key]}" for key in got if got[key] != expected[key]]
        differing += bool(wrong)
        print(f"{label(expected)}  " + ("; ".join(wrong) or "equal"), flush=True)
    return differing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?")
    parser.add_argument("--only", default="")
    parser.add_argument("--check", metavar="FILE")
    parser.add_argument("--trace", nargs=2, metavar=("LABEL", "FILE"), help="write every op, allocation and free")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False
    allocator = load_allocator()
    if options.check:
        return 1 if check(options.check, allocator) else 0
    if options.trace:
        entry = next(entry for entry in all_cases() if options.trace[0] in label(entry))
        print(label(entry), json.dumps(measure(entry, allocator, options.trace[1]), indent=1))
        return 0
    done = []
    for entry in all_cases():
        if options.only in label(entry):
            done.append(entry | measure(entry, allocator))
            print(f"{label(entry)}  {done[-1]['peak_bytes']}", flush=True)
    with open(options.output, "w") as file:
        source = f"PyTorch {torch.__version__}, transformers {transformers.__version__}, CPU tensors, no dispatch mode"
        file.write('{"source": ' + json.dumps(source) + ', "cases": [\n')
        file.write(",\n".join(json.dumps(entry) for entry in done) + "\n]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
