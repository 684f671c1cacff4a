#!/usr/bin/env python3
"""Peaks of transformers' own step, measured by torch.cuda, against `ac-advisor plan --framework hf`."""

import advisor
import hugging_face
from part import Part, arguments, percent


def measured(a, checkpointing):
    hugging_face.release(a.device)
    step = hugging_face.Step(hugging_face.model_of(a.model, a.device, checkpointing=checkpointing),
                             a.device, a.batch, a.seq)
    step.run()  # the second step is the steady state: moments exist
    allocated, reserved = hugging_face.peaks(a.device, step.run)
    planned = advisor.plan(a, a.model, {"--framework": "hf", "--ac": "full" if checkpointing else "none"})["memory"]
    predicted = {k: planned.get(f"peak_{k}_bytes") for k in ("allocated", "reserved")}
    return {"allocated_predicted": predicted["allocated"], "allocated_measured": allocated,
            "allocated_error_percent": percent(allocated, predicted["allocated"]),
            "reserved_predicted": predicted["reserved"], "reserved_measured": reserved,
            "reserved_error_percent": percent(reserved, predicted["reserved"])}


def main():
    a = arguments()
    part = Part("transformers", a, "Peaks of transformers' own step, predicted and measured")
    for checkpointing in (False, True):
        part.row("gradient_checkpointing " + ("on" if checkpointing else "off"), lambda: measured(a, checkpointing))
    part.write()


main()
