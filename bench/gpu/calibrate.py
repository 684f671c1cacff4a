#!/usr/bin/env python3
"""Step times as planned before and after `ac-advisor calibrate`, beside measured ones, and how well each
ranks the configurations (Kendall's tau: 1 the same order, -1 the reverse)."""

import advisor
from part import Part, arguments, output_of, percent

CASES = [{"--ac": ac, "--loss": loss, "--kernels": kernels} for kernels in ("fused", "eager")
         for loss in ("lc-ce", "ce") for ac in ("none", "selective", "full")]


def tau(xs, ys):
    pairs = [(i, j) for i in range(len(xs)) for j in range(i)]
    signs = [((xs[i] > xs[j]) - (xs[i] < xs[j])) * ((ys[i] > ys[j]) - (ys[i] < ys[j])) for i, j in pairs]
    return sum(signs) / len(pairs) if pairs else None


def main():
    a = arguments()
    part = Part("calibrate", a, "Step times, planned and measured")
    file = (a.out / "device.json").resolve()

    def calibrate():
        a.out.mkdir(parents=True, exist_ok=True)
        output_of([a.build / "ac-advisor", "calibrate", "--gpu", a.gpu, "--output", file] +
                  (["--quick"] if a.quick else []), 400)
        return {"in": file.name}

    part.row("ac-advisor calibrate", calibrate)

    def times(options):
        result = advisor.measure(a, a.model, options, 3 if a.quick else 6)
        measured = result["time"]["step_seconds"]
        before = result["predicted"]["time"]["step_seconds"]
        row = {"measured_seconds": measured, "estimate_seconds": before, "estimate_error_percent": percent(measured, before)}
        if file.exists():
            after = advisor.plan(a, a.model, options | {"--gpu": file})["time"]["step_seconds"]
            row |= {"calibrated_seconds": after, "calibrated_error_percent": percent(measured, after)}
        return row

    for options in CASES[:3] if a.quick else CASES:
        part.row(" ".join(options.values()), lambda: times(options))
    done = [r for r in part.rows if r.get("measured_seconds")]
    for kind in ("estimate", "calibrated"):
        rows = [r for r in done if r.get(kind + "_seconds")]
        value = tau([r["measured_seconds"] for r in rows], [r[kind + "_seconds"] for r in rows])
        worst = part.worst(kind + "_error_percent")
        part.note(f"{kind}: " + ("not measured" if value is None else
                                 f"tau {value:.3f} over {len(rows)} configurations, worst error {worst:.1f} %"))
    part.write()


main()
