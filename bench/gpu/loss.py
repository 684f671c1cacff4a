#!/usr/bin/env python3
"""The loss alone: cross-entropy over a large vocabulary against losses that never hold the logits, time
and peak memory of forward and backward; and this trainer's two losses, in the smallest model around them."""

import json
import pathlib
import tempfile
import time

import torch
import torch.nn.functional as F

import advisor
import hugging_face
from part import Part, arguments, config_of


def cross_entropy(hidden, weight, labels):
    return F.cross_entropy(F.linear(hidden, weight).float(), labels)


def one(a, loss, steps):
    hugging_face.release(a.device)
    hidden = torch.randn(a.tokens, a.hidden, device=a.device, dtype=torch.bfloat16, requires_grad=True)
    weight = (torch.randn(a.vocab, a.hidden, device=a.device, dtype=torch.bfloat16) * 0.02).requires_grad_()
    labels = torch.randint(0, a.vocab, (a.tokens,), device=a.device)

    def run():
        hidden.grad = weight.grad = None
        loss(hidden, weight, labels).backward()

    for _ in range(2):
        run()
    hidden.grad = weight.grad = None
    base = torch.cuda.memory_allocated() if a.device == "cuda" else 0
    allocated, _ = hugging_face.peaks(a.device, run)
    times = []
    for _ in range(steps):
        hugging_face.synchronize(a.device)
        start = time.perf_counter()
        run()
        hugging_face.synchronize(a.device)
        times.append(time.perf_counter() - start)
    return {"milliseconds": 1e3 * min(times), "peak_beyond_inputs_bytes": allocated - base if allocated else None}


def trainer(a, loss, steps):
    config = config_of(a.model) | {"hidden_size": a.hidden, "vocab_size": a.vocab, "num_hidden_layers": 1}
    heads = max(1, a.hidden // 64)
    config |= {"num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": a.hidden // heads}
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
        batch = max(1, a.tokens // a.seq)
        result = advisor.measure(a, folder, {"--batch": batch, "--seq": min(a.seq, a.tokens), "--loss": loss,
                                             "--kernels": "fused", "--optimizer": "sgd"}, steps)
    return {"milliseconds": 1e3 * result["time"]["step_seconds"],
            "peak_allocated_bytes": result["memory"]["peak_allocated_bytes"],
            "peak_loss_phase_bytes": result["memory"]["peak_by_phase"].get("loss")}


def main():
    a = arguments()
    steps = 3 if a.quick else 10
    part = Part("loss", a, f"Loss over {a.vocab} words, {a.tokens} tokens, hidden {a.hidden}, bf16")
    part.row("PyTorch eager: linear + cross_entropy", lambda: one(a, cross_entropy, steps))
    part.row("PyTorch compiled: linear + cross_entropy", lambda: one(a, torch.compile(cross_entropy), steps))
    if hasattr(F, "linear_cross_entropy"):
        part.row("PyTorch linear_cross_entropy",
                 lambda: one(a, lambda h, w, y: F.linear_cross_entropy(h, w, y), steps))
    else:
        part.note(f"torch {torch.__version__} has no torch.nn.functional.linear_cross_entropy")
    for loss in ("ce", "lc-ce", "chunked:2048"):
        part.row(f"ac-trainer, a step of one block: {loss}", lambda: trainer(a, loss, steps))
    part.note("ac-trainer's rows are whole steps of a model of one block: their difference is the loss's")
    part.write()


main()
