#!/usr/bin/env python3
"""Predicted and measured peaks of the trainer's own steps, in every mode; and the documented table of
NeMo AutoModel's guide (September 2025, Llama-3.2-1B, H100-80GB, torch.cuda.max_memory_allocated, GiB)."""

import itertools

import advisor
from part import Part, arguments

MODES = ("none", "full", "selective", "attention", "grouped:2", "grouped:4", "sqrt")
SHARDED = {"--world": 8, "--shard": "fsdp2", "--collectives": "emulate"}
DOCUMENTED = (("Baseline", 53.03, {"--ac": "none", "--loss": "ce", "--world": 1, "--shard": "none"}),
              ("+ FSDP (dp 8)", 47.59, {"--ac": "none", "--loss": "ce"} | SHARDED),
              ("+ gradient checkpointing", 33.06, {"--ac": "full", "--loss": "ce"} | SHARDED),
              ("+ LC-CE", 7.30, {"--ac": "full", "--loss": "lc-ce"} | SHARDED))
GIB = 2.0 ** 30


def documented(a, gib, options):
    result = advisor.measure(a, a.model, {"--framework": "automodel"} | options, steps=2)
    row = advisor.memory_row(result)
    # The guide's machine runs PyTorch; this trainer's own step has one cuBLAS workspace, not two.
    theirs = advisor.plan(a, a.model, {"--framework": "automodel"} | {k: v for k, v in options.items() if k != "--collectives"})
    return row | {"documented_gib": gib, "measured_gib": (row["peak_allocated_measured"] or 0) / GIB or None,
                  "planned_for_pytorch_gib": theirs["memory"]["peak_allocated_bytes"] / GIB}


def main():
    a = arguments()
    part = Part("memory", a, "Peaks, predicted and measured")
    for label, gib, options in DOCUMENTED:
        part.row("documented: " + label, lambda: documented(a, gib, options))
    cases = itertools.product(("none", "fsdp2"), ("ce", "lc-ce"), ("fused", "eager"), MODES)
    for shard, loss, kernels, ac in itertools.islice(cases, 4 if a.quick else None):
        options = {"--ac": ac, "--loss": loss, "--kernels": kernels} | (SHARDED if shard == "fsdp2" else {})
        part.row(f"{ac} {loss} {kernels} {shard}",
                 lambda: advisor.memory_row(advisor.measure(a, a.model, options, steps=2)))
    for figure in ("peak_allocated", "peak_reserved"):
        worst = part.worst(figure + "_error_percent")
        part.note(f"worst error of {figure}: " + ("not measured" if worst is None else f"{worst:.4f} %"))
    part.write()


main()
