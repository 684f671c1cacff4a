"""As adapter_compile_peaks.py, of DoRA, of steps that a seeded generator draws: PEFT's in emulated_peaks.py's loop, and
torchtune's own DoRALinear in transformers' layers in its recipe, which compiles its layers and its loss.

    ac-advisor dryrun [--world N] --output /dev/null -- python dora_compile_peaks.py dora_compile_peaks.json --only TEXT

TEXT is `input_require_grads` for PEFT's, and `framework` for torchtune's, in a process of its own: it needs torchtune 0.6.1,
torchao 0.13.0, which PEFT does not take, and what they import on PYTHONPATH. Drawn before they were planned.
"""

import random
import sys

import torch
from torch import nn

import adapter_compile_peaks
import compile_peaks
import emulated_peaks
import torchtune_compile_peaks
import torchtune_peaks
import training_step

ALL, ATTENTION = adapter_compile_peaks.ALL, adapter_compile_peaks.ATTENTION
MODELS = ("small_llama", "llama1b_4layers", "qwen3_06b_4layers", "qwen2_05b_4layers", "mistral7b_4layers")
SIZES = ((2, 2048), (1, 2048), (2, 1024), (3, 1000))


def sizes(draw):
    batch, seq = draw.choice(SIZES)
    return {"batch": batch, "seq": seq, "grad_accum": draw.choice((1, 1, 2))}


def by_hand(draw, model):
    """Dynamo refuses PEFT's layer within a checkpoint in a compiled block, as it clears a dictionary (gb0067), and over
    bitsandbytes' weights, whose class it asks for (gb0164)."""
    more = draw.choice(({}, {}, {"world": 8, "shard": "fsdp2"}))
    dtype = "bf16" if "shard" in more else draw.choice(("fp32", "bf16"))
    ac = draw.choice(("none", "none", "memory-budget:0.5"))
    return adapter_compile_peaks.shape(model, ac, dora=True, lora=draw.choice((8, 16, 64)), lora_dtype=dtype,
                                       lora_targets=draw.choice((ALL, ATTENTION)), **sizes(draw), **more)


def by_recipe(draw, model):
    more = draw.choice(({}, {"world": 2, "shard": "fsdp2"}, {"world": 8, "shard": "fsdp2"}))
    targets = draw.choice((torchtune_peaks.ATTENTION_AND_MLP, ATTENTION))
    return torchtune_peaks.shape(model, ac=draw.choice(("none", "full")), kernels="compiled", dora=True,
                                 lora=draw.choice((8, 16, 64)), lora_targets=targets, **sizes(draw), **more)


def cases():
    draw = random.Random("compiled DoRA")
    for number in range(24):
        model = MODELS[number % 5]
        yield by_recipe(draw, model) if number % 2 else by_hand(draw, model)


def with_dora(linear, rank):
    from torchtune.modules.peft import DoRALinear

    layer = DoRALinear(linear.in_features, linear.out_features, rank, 2.0 * rank, use_bias=linear.bias is not None)
    layer.weight, layer.bias = linear.weight, linear.bias
    return layer.to(torch.bfloat16)


def adapted(model, entry):
    """torchtune's layers in the place of nn.Linear, in the base's dtype."""
    names = entry["lora_targets"].split(",")
    model.requires_grad_(False)
    for block in training_step.blocks_of(model):
        for module in list(block.modules()):
            for name, linear in list(module.named_children()):
                if name in names and isinstance(linear, nn.Linear):
                    with torch.device("meta"):
                        setattr(module, name, with_dora(linear, entry["lora"]))
    return model


def measure(entry):
    if entry.get("framework") != "torchtune":
        emulated_peaks.model_of = adapter_compile_peaks.model_of
        return compile_peaks.measure(entry)
    emulated_peaks.model_of, torchtune_peaks.adapted = plain, adapted
    return torchtune_compile_peaks.measure(entry)


plain = adapter_compile_peaks.peft_peaks.plain

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
