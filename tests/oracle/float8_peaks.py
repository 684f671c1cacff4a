"""Peaks and launches of training steps whose blocks' linear layers are torchao's Float8Linear, on the emulated device.

    ac-advisor dryrun [--world N] --output /dev/null -- python float8_peaks.py float8_peaks.json

As emulated_peaks.py; a case has its keys, and fp8 and fp8_all_gather. What is converted is what TorchTitan converts:
linear layers whose sizes are multiples of 16, but the head (filter_fqns = ["output"]); selective checkpoints keep
aten.max as well, as TorchTitan's list does.
"""

import contextlib
import sys

import torch
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
from torchao.float8 import Float8LinearConfig, convert_to_float8_training, precompute_float8_dynamic_scale_for_fsdp

import emulated_peaks
import fp16_peaks
import training_step

aten = torch.ops.aten
FSDP = {"shard": "fsdp2", "world": 8}
MIXED = FSDP | {"param_dtype": "fp32", "compute_dtype": "bf16", "reduce_dtype": "fp32"}
AUTOCAST = {"param_dtype": "fp32", "autocast": "bf16"}
GATHERED = {"fp8_all_gather": True}
BLOCKS = "smollm17b_untied_4layers"
FAMILIES = ("mistral7b_4layers", "phi3_mini_4layers", "smollm3_3b_4layers", "granite31_8b_4layers", "olmo2_7b_4layers",
            "olmo3_7b_4layers", "gemma_7b_4layers", "gemma3_1b_6layers", "starcoder2_3b_4layers", "pythia_14b_4layers",
            "phi2_4layers", "stablelm2_16b_4layers", "minitron_4b_4layers", "aya_8b_4layers", "command_r7b_4layers",
            "glm_9b_4layers", "glm4_9b_4layers", "ministral3_8b_4layers", "internlm25_7b_4layers", "minicpm_2b_4layers")
KEPT = {aten._scaled_dot_product_flash_attention.default, aten._scaled_dot_product_cudnn_attention.default,
        aten.max.default, torch.ops._c10d_functional.reduce_scatter_tensor.default}


def shape(model, batch, seq, ac="none", fp8="tensorwise", **more):
    return {"model": model, "batch": batch, "seq": seq, "ac": ac, "loss": "ce", "fp8": fp8} | more


def cases():
    for model in ("small_llama", "llama1b_4layers", "qwen2_05b_4layers", "qwen3_06b_4layers", BLOCKS):
        for ac in ("none", "full", "selective"):
            yield shape(model, 2, 2048, ac)
        yield shape(model, 4, 1024, fp8="rowwise")
        yield shape(model, 2, 2048, "full", "rowwise")
    for model in FAMILIES:
        yield shape(model, 2, 2048)
        yield shape(model, 2, 2048, "full", "rowwise")
    for model in ("llama1b_4layers", "qwen3_06b_4layers"):
        yield shape(model, 2, 2048, "selective", "rowwise")
        yield shape(model, 3, 1008)
        yield shape(model, 1, 4096, "full", attn="flash")
        yield shape(model, 2, 1024, grad_accum=2)
        yield shape(model, 2, 1024, "full", grad_accum=2)
        yield shape(model, 2, 2048, "full", hold_output=False)
        yield shape(model, 2, 2048, shard="ddp", world=8)
        yield shape(model, 2, 2048, "full", "rowwise", shard="ddp", world=8)
        yield shape(model, 2, 2048, "every:2")
        yield shape(model, 2, 2048, "grouped:2")
        yield shape(model, 2, 2048, "full", attn="eager")
        yield shape(model, 2, 2048, "full") | {"loss": "chunked:1024"}
        yield shape(model, 2, 2048, "full", alloc_conf="expandable_segments:True")
        yield shape(model, 2, 2048, "full", optimizer="adamw-foreach")
        yield shape(model, 2, 2048, "full", shard="hsdp:4", world=8)
        yield shape(model, 2, 2048, "full", shard="hsdp:4", world=8, **GATHERED)
        yield shape(model, 2, 2048, "full", keep_last_block=True, optimizer="adamw-foreach", **FSDP, **GATHERED)
    for model in ("small_llama", "qwen2_05b_4layers", "qwen3_06b_4layers", BLOCKS):
        for ac in ("none", "full", "selective"):
            yield shape(model, 2, 2048, ac, **AUTOCAST)
        yield shape(model, 2, 2048, "full", "rowwise", **AUTOCAST)
        yield shape(model, 2, 1024, grad_accum=2, **AUTOCAST)
    yield shape("qwen2_05b_4layers", 2, 2048, shard="ddp", world=8, **AUTOCAST)
    for model in ("small_llama", "llama1b_4layers", BLOCKS):
        for ac in ("none", "full", "selective"):
            yield shape(model, 2, 2048, ac, **FSDP)
            yield shape(model, 2, 2048, ac, **MIXED)
            yield shape(model, 2, 2048, ac, **FSDP, **GATHERED)
            yield shape(model, 2, 2048, ac, **MIXED, **GATHERED)
        yield shape(model, 2, 2048, "full", "rowwise", **MIXED)
        yield shape(model, 2, 1024, "full", grad_accum=2, **MIXED)
        yield shape(model, 2, 1024, "full", grad_accum=2, no_sync=True, **MIXED, **GATHERED)
    for more in ({}, GATHERED):  # TorchTitan's units
        for ac in ("none", "selective"):
            yield shape(BLOCKS, 2, 2048, ac, fsdp_unit="torchtitan", hold_output=False, **MIXED, **more)


def policy():
    """torchtitan v0.2.2, models/llama3/infra/parallelize.py, _op_sac_save_list, and every second aten.mm."""
    counts = {False: 0, True: 0}

    def decide(ctx, func, *args, **kwargs):
        keep = func in KEPT
        if func == aten.mm.default:
            counts[ctx.is_recompute] += 1
            keep = counts[ctx.is_recompute] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(decide)


def converted(module, name):
    return isinstance(module, torch.nn.Linear) and "lm_head" not in name and \
        all(size % 16 == 0 for size in module.weight.shape)


def config_of(entry):
    if entry["fp8"] == "tensorwise":
        return Float8LinearConfig(enable_fsdp_float8_all_gather=entry.get("fp8_all_gather", False))
    return Float8LinearConfig.from_recipe_name(entry["fp8"])


class Optimizer:
    """An optimizer whose step ends with the weights' scales."""

    def __init__(self, optimizer, model):
        self.optimizer, self.model = optimizer, model
        self.zero_grad = optimizer.zero_grad

    def step(self):
        self.optimizer.step()
        precompute_float8_dynamic_scale_for_fsdp(self.model)


@contextlib.contextmanager
def converting(entry):
    """Models are made with torchao's layers, and optimizers with the scales of what is gathered in fp8."""
    others, training_step.torchtitan_policy = training_step.torchtitan_policy, policy
    plain, make_optimizer = emulated_peaks.model_of, emulated_peaks.make_optimizer
    if entry.get("fp8_all_gather"):
        emulated_peaks.make_optimizer = lambda entry, step: Optimizer(make_optimizer(entry, step), step)
    emulated_peaks.model_of = lambda entry: convert_to_float8_training(
        plain(entry), config=config_of(entry), module_filter_fn=converted)
    try:
        yield
    finally:
        training_step.torchtitan_policy = others
        emulated_peaks.model_of, emulated_peaks.make_optimizer = plain, make_optimizer


def measure(entry):
    with converting(entry):
        return fp16_peaks.measure(entry) if "autocast" in entry else emulated_peaks.measure(entry)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
