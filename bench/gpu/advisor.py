"""ac-advisor's own commands, and what of their JSON the parts need."""

import json

from part import output_of, percent


def words(a, model, options):
    """Options by hand win over the part's defaults."""
    settled = {"--batch": a.batch, "--seq": a.seq, "--gpu": a.gpu} | options
    out = [model]
    for name, value in settled.items():
        out += [name] if value is True else [name, value]
    return out + ["--format", "json"]


def plan(a, model, options, seconds=60):
    return json.loads(output_of([a.build / "ac-advisor", "plan"] + words(a, model, options), seconds))


def measure(a, model, options, steps, seconds=240):
    options = {"--steps": steps, "--no-parity": True} | options
    return json.loads(output_of([a.build / "ac-advisor", "measure"] + words(a, model, options), seconds))


def memory_row(result):
    """Predicted and measured peaks of `measure --format json`."""
    row = {}
    for figure in ("peak_allocated", "peak_reserved"):
        key = figure + "_bytes"
        predicted, measured = result["predicted"]["memory"].get(key), result["memory"].get(key)
        row |= {f"{figure}_predicted": predicted, f"{figure}_measured": measured,
                f"{figure}_error_percent": percent(measured, predicted)}
    row["step_seconds_predicted"] = result["predicted"]["time"]["step_seconds"]
    row["step_seconds_measured"] = result["time"]["step_seconds"]
    return row
