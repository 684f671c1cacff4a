#!/usr/bin/env python3
"""A training step of ac-trainer against PyTorch's own eager step of the same model, on this CPU with
the same number of threads, in one run: prints milliseconds and their ratio (above 1: ac-trainer is
faster). Needs torch 2.11 and transformers; without them it says so.

    python3 bench/trainer_against_pytorch.py build/release/ac-advisor [--threads N] [--steps N]

PyTorch: transformers' model, its loss, torch.utils.checkpoint (non-reentrant) and fused AdamW. It has
no LC-CE, so that row's PyTorch step is plain cross-entropy. `compiled` rows compare --kernels compiled with
torch.compile's CPU backend, each block with its checkpoint one full graph. Both take the fastest of their steps, a
few of each in turns, as machines are shared.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time

try:
    import torch
    import transformers
    from torch.utils.checkpoint import checkpoint
except ImportError as error:
    raise SystemExit(f"not compared: PyTorch is not here ({error})")

ROOT = pathlib.Path(__file__).resolve().parent.parent


def model_of(config, ac):
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config, attn_implementation="sdpa"))
    model.config.use_cache = False
    blocks = list(model.model.layers)
    if ac != "none":
        size = 1 if ac == "full" else 2

        class Segment(torch.nn.Module):
            def __init__(self, layers):
                super().__init__()
                self.layers = torch.nn.ModuleList(layers)

            def run(self, hidden, kwargs):
                for layer in self.layers:
                    hidden = layer(hidden, **kwargs)
                return hidden

            def forward(self, hidden, **kwargs):
                return checkpoint(self.run, hidden, kwargs, use_reentrant=False)

        model.model.layers = torch.nn.ModuleList(
            Segment(blocks[i:i + size]) for i in range(0, len(blocks), size))
        model.model.config.num_hidden_layers = len(model.model.layers)
    return model


class PyTorchStep:
    def __init__(self, config, ac, batch, seq, compiled):
        self.model = model_of(config, ac)
        if compiled:
            for layer in self.model.model.layers:
                layer.compile(fullgraph=True)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, fused=True)
        self.ids = torch.randint(0, 256, (batch, seq))
        self.run()

    def run(self):
        start = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        self.model(input_ids=self.ids, labels=self.ids).loss.backward()
        self.optimizer.step()
        return time.perf_counter() - start


def trainer_step(program, folder, ac, loss, kernels, batch, seq, threads, steps):
    words = [program, "measure", str(folder), "--batch", batch, "--seq", seq, "--ac", ac, "--loss", loss, "--kernels",
             kernels, "--param-dtype", "fp32", "--compute-dtype", "fp32", "--reduce-dtype", "fp32", "--threads",
             threads, "--steps", steps, "--no-parity", "--format", "json"]
    out = subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True).stdout
    return json.loads(out)["time"]["step_seconds"]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--steps", type=int, default=6)
    a = arguments.parse_args()
    torch.set_num_threads(a.threads)
    tiny = json.loads((ROOT / "sample_models/tiny-llama/config.json").read_text())
    large = json.loads((ROOT / "sample_models/llama-60m/config.json").read_text()) | {"num_hidden_layers": 20}
    print(f"{a.threads} threads, fp32; ms a step, fastest of {a.steps}; ratio: PyTorch over ac-trainer")
    print(f"{'model':<22}{'mode':<22}{'PyTorch':>9}{'eager':>9}{'ratio':>7}{'fused*':>9}{'ratio':>7}")
    print("* --kernels compiled where the mode says so, against torch.compile")
    for name, config, batch, seq in (("tiny-llama 8x128", tiny, 8, 128), ("llama 96M 2x128", large, 2, 128)):
        config = {k: v for k, v in config.items() if k not in ("architectures", "torch_dtype", "transformers_version")}
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
            for ac, loss, compiled in (("none", "ce", False), ("full", "ce", False), ("grouped:2", "ce", False),
                                       ("none", "lc-ce", False), ("none", "ce", True), ("full", "ce", True)):
                ours = ("eager", "compiled") if compiled else ("eager", "fused")
                theirs = PyTorchStep({k: v for k, v in config.items() if k != "model_type"}, ac, batch, seq, compiled)
                best = {"pytorch": 1e9} | {kernels: 1e9 for kernels in ours}
                for _ in range(2):
                    best["pytorch"] = min([best["pytorch"]] + [theirs.run() for _ in range(a.steps)])
                    for kernels in ours:
                        best[kernels] = min(best[kernels], trainer_step(
                            a.program, folder, ac, loss, kernels, batch, seq, a.threads, a.steps))
                del theirs
                row = f"{name:<22}{ac + ' ' + loss + (' compiled' if compiled else ''):<22}{best['pytorch'] * 1e3:>9.1f}"
                for kernels in ours:
                    row += f"{best[kernels] * 1e3:>9.1f}{best['pytorch'] / best[kernels]:>7.2f}"
                print(row, flush=True)


main()
