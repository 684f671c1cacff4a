"""Peaks and launches of PEFT's adapters in emulated_peaks.py's loop: beside experts, and over a base that FSDP2 shards,
in bf16 or in bitsandbytes' 4-bit weights stored in the dtype of the rest (bnb_4bit_quant_storage, as its documentation
asks of FSDP).

    ac-advisor dryrun [--world N] --output /dev/null -- python peft_peaks.py peft_peaks.json

As emulated_peaks.py. What FSDP2 does not know of, the scales of quantized blocks, every rank has whole.
"""

import sys

import torch
from peft import LoraConfig, get_peft_model

import emulated_peaks
from adapter_step import quantize
from training_step import DTYPES

MODELS = ("small_llama", "llama1b_4layers", "qwen3_06b_4layers", "mistral7b_4layers")
ALL = "all-linear"


def shape(model, **more):
    return {"model": model, "batch": 2, "seq": 1024, "ac": "none", "loss": "ce", "world": 8, "shard": "fsdp2", "lora": 8,
            "input_require_grads": "off"} | more


def quantized(model, **more):
    return shape(model, quantize="nf4") | more


def dora():
    for model in MODELS:
        for ac in ("none", "full"):
            yield shape(model, ac=ac, dora=True, lora_dtype="bf16", lora_targets=ALL)
        yield shape(model, ac="full", dora=True, lora_targets="q_proj,v_proj")
    yield shape("llama1b_4layers", shard="hsdp:4", dora=True, ac="full", lora_targets=ALL)


def experts():
    """Adapters of attention alone: experts are frozen."""
    for model in ("small_mixtral", "mixtral8x7b_2layers", "qwen3_30b_a3b_4layers", "olmoe_1b_7b_4layers",
                  "qwen15_moe_27b_4layers", "phi35_moe_2layers", "glm45_air_3layers"):
        alone = {"world": 1, "shard": "none", "lora": 16}
        for ac in ("none", "full"):
            yield shape(model, ac=ac, lora_targets="q_proj,v_proj") | alone
            yield shape(model, ac=ac, lora_targets="q_proj,k_proj,v_proj,o_proj", lora_dtype="bf16") | alone
        yield shape(model, ac="full", lora_targets="q_proj,v_proj", lora_dtype="bf16")


def experts_too():
    """Adapters of experts, too, whose weights are 3-D parameters: PEFT parametrizes each (lora.ParamWrapper)."""
    alone = {"world": 1, "shard": "none", "lora": 16, "lora_targets": ALL}
    for model in ("small_mixtral", "mixtral8x7b_2layers", "qwen3_30b_a3b_4layers", "olmoe_1b_7b_4layers",
                  "qwen15_moe_27b_4layers", "glm45_air_3layers"):
        for ac in ("none", "full"):
            yield shape(model, ac=ac) | alone
            yield shape(model, ac=ac, lora_dtype="bf16") | alone | {"lora": 8}
        yield shape(model, ac="full", lora_targets=ALL, lora_dtype="bf16")
    for model, projections in (("mixtral8x7b_2layers", "w1,w2,w3"), ("qwen3_30b_a3b_4layers", "gate_proj,up_proj,down_proj")):
        yield shape(model, ac="full") | alone | {"lora_targets": projections}
        yield shape(model, ac="none", batch=1) | alone | {"lora_targets": f"q_proj,v_proj,{projections}"}
        yield shape(model, ac="full", lora_targets=f"q_proj,k_proj,v_proj,o_proj,{projections}")
        yield shape(model, shard="ddp", ac="full", lora_targets=ALL)
        yield quantized(model, ac="full", **(alone | {"lora_dtype": "bf16"}))
    yield shape("mixtral8x7b_2layers", ac="none") | alone | {"lora_targets": "o_proj,w2"}


def cases():
    yield from experts()
    yield from experts_too()
    for model in MODELS:
        for how in ("nf4", "nf4-double"):
            for ac in ("none", "full"):
                yield quantized(model, ac=ac, quantize=how, lora_dtype="bf16", lora_targets=ALL)
        yield quantized(model, lora_targets="q_proj,v_proj")
        yield quantized(model, ac="full", lora_targets=ALL)
        yield quantized(model, ac="full", shard="hsdp:4", lora_dtype="bf16", lora_targets=ALL, keep_last_block=True)
    for model in MODELS[:2]:
        yield quantized(model, ac="full", world=2, batch=1, seq=2048, lora_dtype="bf16", lora_targets=ALL)
        yield quantized(model, grad_accum=2, lora_dtype="bf16", lora_targets=ALL)
        yield quantized(model, hold_output=False, ac="full", batch=3, seq=1000, lora_targets=ALL)
    for ac in ("none", "full"):
        yield quantized("qwen2_05b_4layers", ac=ac, lora_dtype="bf16", lora_targets=ALL)
    yield from dora()


def model_of(entry):
    model = plain(entry)
    if "quantize" in entry:
        quantize(model, entry["quantize"], storage=DTYPES[entry["param_dtype"]])
    targets = entry["lora_targets"]
    config = LoraConfig(r=entry["lora"], lora_alpha=2 * entry["lora"], use_dora=entry.get("dora", False),
                        lora_dropout=entry.get("lora_dropout", 0.0),
                        target_modules=ALL if targets == ALL else targets.split(","), task_type="CAUSAL_LM")
    wide = entry.get("lora_dtype", "fp32") == "fp32"
    adapted = get_peft_model(model, config, autocast_adapter_dtype=wide)
    for module in adapted.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter.requires_grad:  # of the device, as their layers' codes are
                like = torch.empty_like(parameter, device="meta", dtype=torch.float32 if wide else torch.bfloat16)
                module._parameters[name] = torch.nn.Parameter(like)
    return adapted.base_model.model


def measure(entry):
    figures = emulated_peaks.measure(entry)
    if "quantize" in entry:
        import bitsandbytes.functional  # where it is not needed it need not be there
        bitsandbytes.functional.name2qmap.clear()  # the code books that it keeps for a process
    return figures


plain, emulated_peaks.model_of = emulated_peaks.model_of, model_of

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
