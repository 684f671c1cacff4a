"""One step of NeMo AutoModel 0.5.0's loop, as automodel_compile_peaks.py and automodel_cp_peaks.py measure it."""

import contextlib

import torch
from nemo_automodel.components.distributed.cp_utils import make_cp_batch_and_ctx

import emulated_peaks
import loop_names
import packing_peaks


def batch_of(entry, mesh, vocabulary):
    """recipes/llm/train_ft.py, _forward_backward_step: the context, and what the model is given."""
    if "packing" in entry:
        row = packing_peaks.row_of(entry, vocabulary)
        return contextlib.nullcontext, {name: row[name] for name in ("input_ids", "labels", "position_ids")}
    size = entry["batch"], entry["seq"]
    return make_cp_batch_and_ctx(mesh, {name: torch.randint(vocabulary, size).cuda() for name in ("input_ids", "labels")})


def run_step(entry, step, mesh, vocabulary, optimizer, enter, kept):
    optimizer.zero_grad(set_to_none=True)
    for number in range(entry["grad_accum"]):
        enter("forward")
        loop_names.before_forward(entry, kept)
        context, batch = batch_of(entry, mesh, vocabulary)
        with context(), emulated_peaks.synchronized(entry, step, number):
            step.more |= {"position_ids": batch["position_ids"]}
            if "cp" in entry:
                step.more["shift_labels"] = batch["labels"]
            out = step(batch["input_ids"], batch["labels"])
            loss = out.loss
            loop_names.assign(kept, out if entry["hold_output"] is not False else loss)
            del out
            enter("backward")
            loss.backward()
            del loss
        step.more.clear()
        del batch, context
    enter("optimizer")
    optimizer.step()
