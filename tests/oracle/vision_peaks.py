"""As emulated_peaks.py, of images: steps that vision_cases.py draws, measured before they were planned.

    ac-advisor dryrun --output /dev/null -- python vision_peaks.py vision_peaks.json
    ac-advisor dryrun --output /dev/null -- python vision_peaks.py vision_adapter_peaks.json    # peft, bitsandbytes
    ac-advisor dryrun --world 8 --output /dev/null -- python vision_peaks.py vision_ddp_peaks.json
"""

import os
import sys

from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

import adapter_step
import emulated_peaks
import training_step
from vision_cases import drawn, drawn_adapters, drawn_ddp


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


def adapted(model, entry):
    """What is called, over a base that is on the device."""
    if entry.get("quantize"):
        adapter_step.quantize(model, entry["quantize"])
        adapter_step.materialize(model)
    else:
        emulated_peaks.on_device(model)
    return adapter_step.adapt(model, adapter_step.DEFAULTS | entry)


def build(entry, on_loss):
    model = emulated_peaks.model_of(entry)
    called = adapted(model, entry) if entry.get("lora") else model
    blocks = training_step.blocks_of(model)
    training_step.checkpoint_blocks(model, emulated_peaks.ac_of(entry))
    freeze(model, entry.get("freeze", ""))
    if entry.get("tower_ac"):
        layers = encoder_of(model)[1]
        for i, layer in enumerate(layers):
            layers[i] = checkpoint_wrapper(layer, preserve_rng_state=False)
    step = training_step.Step(called, entry["loss"].replace("chunked:", "chunk").replace("ce", "hf"), on_loss)
    if step.chunked:
        training_step.CHUNK_TOKENS = int(entry["loss"].removeprefix("chunked:"))
    if entry.get("lora"):  # it is on the device
        return step, emulated_peaks.data_parallel(step, entry) if entry["shard"] == "ddp" else step
    return step, emulated_peaks.parallel(step, blocks, entry)


def measure(entry):
    try:
        return emulated_peaks.measure(entry, build)
    finally:
        if entry.get("quantize"):
            import bitsandbytes.functional  # where it is not needed it need not be there
            bitsandbytes.functional.name2qmap.clear()  # the code books that it keeps for a process


if __name__ == "__main__":
    cases = {"vision_adapter_peaks": drawn_adapters, "vision_ddp_peaks": drawn_ddp}
    draw = cases.get(os.path.basename(sys.argv[1]).removesuffix(".json"), drawn)
    sys.exit(emulated_peaks.main(list(draw()), measure, __doc__))
