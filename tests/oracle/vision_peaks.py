"""As emulated_peaks.py, of images: steps that vision_cases.py draws, measured before they were planned.

    ac-advisor dryrun --output /dev/null -- python vision_peaks.py vision_peaks.json
"""

import sys

from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

import emulated_peaks
import training_step
from vision_cases import drawn


def encoder_of(model):
    """The encoder, its layers' list, and the modules that people call its projector, or aligner."""
    base = model.model
    if hasattr(base, "visual"):
        more = [base.visual.deepstack_merger_list] if hasattr(base.visual, "deepstack_merger_list") else []
        return base.visual, base.visual.blocks, [base.visual.merger, *more]
    return base.vision_tower, base.vision_tower.encoder.layers, [base.multi_modal_projector]


def freeze(model, parts):
    """As ms-swift and LLaMA-Factory do it: whatever is not trained requires no gradient."""
    encoder, _, projectors = encoder_of(model)
    projected = {p for module in projectors for p in module.parameters()}
    of_part = {"tower": [p for p in encoder.parameters() if p not in projected], "projector": projected,
               "decoder": [*model.model.language_model.parameters(), *model.lm_head.parameters()]}
    for part in filter(None, parts.split(",")):
        for parameter in of_part[part]:
            parameter.requires_grad_(False)


def build(entry, on_loss):
    model = emulated_peaks.model_of(entry)
    blocks = training_step.blocks_of(model)
    training_step.checkpoint_blocks(model, emulated_peaks.ac_of(entry))
    freeze(model, entry.get("freeze", ""))
    if entry.get("tower_ac"):
        layers = encoder_of(model)[1]
        for i, layer in enumerate(layers):
            layers[i] = checkpoint_wrapper(layer, preserve_rng_state=False)
    step = training_step.Step(model, entry["loss"].replace("chunked:", "chunk").replace("ce", "hf"), on_loss)
    if step.chunked:
        training_step.CHUNK_TOKENS = int(entry["loss"].removeprefix("chunked:"))
    return step, emulated_peaks.parallel(step, blocks, entry)


def measure(entry):
    return emulated_peaks.measure(entry, build)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(drawn()), measure, __doc__))
