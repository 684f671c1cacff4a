"""Peaks and launches of pipeline ranks on the emulated device, as emulated_peaks.py has them: a case is a rank's step.

    ac-advisor dryrun --world N --rank R --output /dev/null -- python pp_peaks.py OUTPUT.json [--only LABEL] [--again]

Runs the cases of pp_cases.py that have this world and this rank; `pp_cases.py` prints which there are.
"""

import contextlib
import gc
import os
import sys

import torch
from torch import nn
from torchtitan.distributed.utils import clip_grad_norm_

import cp_step
import emulated_peaks
import pp_step
import tp_step
from emulated_cases import config_of
from pp_cases import all_cases, rank_of

DEFAULTS = {"pp_layers": "", "attn": "auto", "shard": "none", "tp": 1, "cp": 1, "cp_method": "allgather",
            "loss_parallel": True}


def of_every_stage(entry, ring):
    """What a step is given for each micro-batch of each stage, beside the first's tokens and the last's labels."""
    sequences = entry["grad_accum"] * entry["batch"]
    return {"position_ids": cp_step.positions(entry | {"batch": sequences}, ring.get_local_rank())} if ring else {}


def steps(entry, marks, _):
    config = config_of(entry["model"])
    mesh = pp_step.meshes(entry)
    stages = list(pp_step.make_stages(entry, config, mesh, lambda: marks.enter("loss")))
    whole = nn.ModuleList(module for _, module in stages)
    emulated_peaks.on_device(whole)
    schedule, made = pp_step.make_schedule(entry, stages, config, mesh["pp"].get_group())
    pp_step.mark_phases(made, marks.enter)
    add_tied = pp_step.add_tied(stages, mesh) if config["tie_word_embeddings"] else lambda: None
    optimizer = emulated_peaks.make_optimizer(entry, whole)
    sequences = entry["grad_accum"] * entry["batch"]
    tokens = sequences, entry["seq"] // entry["cp"]
    ids, labels = (torch.randint(config["vocab_size"], tokens).cuda() for _ in range(2))
    ring = mesh["cp"] if entry["cp"] > 1 else None
    more = of_every_stage(entry, ring)
    gc.collect()
    torch.cuda.empty_cache()  # what was needed to set up
    gc.disable()  # a collection within a zero-bubble step can keep a gradient into the next phase
    found, kept = [], []
    with cp_step.attention(ring, entry["cp_method"]) if ring else contextlib.nullcontext():
        while len(found) < 2 or len(made) > 1 and emulated_peaks.goes_on(found, 2):
            marks.figures = {}
            optimizer.zero_grad(set_to_none=True)
            marks.enter("forward")
            losses = []
            first, last = (any(getattr(stage, end) for stage in made) for end in ("is_first", "is_last"))
            kept = [schedule.step(*([ids] if first else []), **more, target=labels if last else None,
                                  losses=losses if last else None, return_outputs=entry["hold_output"] is not False)]
            add_tied()
            marks.enter("optimizer")
            if "clip_grad" in entry:
                clip_grad_norm_(whole.parameters(), entry["clip_grad"], foreach=True, pp_mesh=mesh["pp"])
            optimizer.step()
            marks.enter(None)
            found.append(filled(marks.figures))
            del losses
    for _, module in stages if ring else ():
        cp_step.with_masks(module.m)
    gc.enable()
    marks.figures = {}
    del kept
    return found


def filled(figures):
    """A phase that a stage has not: zeros."""
    nothing = {"allocated": 0, "reserved": 0, **dict.fromkeys(emulated_peaks.LAUNCHES, 0)}
    return {phase: figures.get(phase, nothing) for phase in emulated_peaks.PHASES}


def measure(entry):
    entry = DEFAULTS | entry
    with tp_step.losses(entry) if entry["tp"] > 1 else contextlib.nullcontext():
        return emulated_peaks.measure(entry, steps=steps)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(all_cases()), measure, __doc__,
                                 lambda entry: rank_of(entry) == int(os.environ["RANK"])))
