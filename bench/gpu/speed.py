#!/usr/bin/env python3
"""Tokens a second: PyTorch eager and torch.compile on transformers' model, and ac-trainer's fused step."""

import json
import pathlib
import tempfile

import advisor
import hugging_face
from part import Part, arguments, config_of, device_of


def peak_flops(a):
    return device_of(a.gpu)["peak_flops_per_second"]["bf16"]["value"]


def flops(config, layers, batch, seq):
    """A step's, forward 1 and backward 2: products with weights (the embedding's look-up is none), and
    causal attention's two products, of which half is computed (PaLM's appendix B, halved)."""
    h, f, v = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    head = config.get("head_dim") or h // heads
    block = h * head * (2 * heads + 2 * kv) + 3 * h * f
    tokens = batch * seq
    return 3 * (2 * tokens * (layers * block + h * v) + layers * 2 * tokens * seq * heads * head)


def speed(seconds, config, layers, a, batch, peak):
    return {"step_seconds": seconds, "tokens_per_second": batch * a.seq / seconds,
            "mfu_percent": 100 * flops(config, layers, batch, a.seq) / seconds / peak if peak else None}


def pytorch(a, model, layers, batch, compiled, steps):
    hugging_face.release(a.device)
    step = hugging_face.Step(hugging_face.model_of(model, a.device, layers), a.device, batch, a.seq, compiled)
    for _ in range(3):
        step.run()
    return min(step.seconds() for _ in range(steps))


def trainer(a, folder, batch, options, steps):
    result = advisor.measure(a, folder, {"--batch": batch, "--kernels": "fused", "--loss": "lc-ce"} | options, steps)
    return result["time"]["step_seconds"]


def main():
    a = arguments()
    steps = 3 if a.quick else 10
    part = Part("speed", a, "Tokens a second, beside PyTorch in the same session")
    peak = peak_flops(a)
    for model, layers, batch in ((a.model, None, a.batch), (a.second_model, a.second_layers, max(1, a.batch // 2))):
        config = config_of(model)
        count = layers or config["num_hidden_layers"]
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "config.json").write_text(json.dumps(config | {"num_hidden_layers": count}))
            name = f"{model}, {count} layers, {batch} x {a.seq}"
            for label, run in (
                    ("PyTorch eager", lambda: pytorch(a, model, layers, batch, False, steps)),
                    ("PyTorch compiled", lambda: pytorch(a, model, layers, batch, True, steps)),
                    ("ac-trainer fused, lc-ce", lambda: trainer(a, folder, batch, {}, steps)),
                    ("ac-trainer fused, ce", lambda: trainer(a, folder, batch, {"--loss": "ce"}, steps)),
                    ("ac-trainer fused, lc-ce, graph", lambda: trainer(a, folder, batch, {"--cuda-graph": "step"}, steps))):
                part.row(f"{name}: {label}", lambda: speed(run(), config, count, a, batch, peak))
                hugging_face.release(a.device)
    part.note("The fastest step after warming up, of all. FLOPs: without recomputation.")
    part.write()


main()
