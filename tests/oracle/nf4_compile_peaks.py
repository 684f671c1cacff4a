"""Peaks and launches of steps with PEFT's adapters in compiled blocks, over bitsandbytes' 4-bit layers.

    ac-advisor dryrun --output /dev/null -- python nf4_compile_peaks.py nf4_compile_peaks.json

As adapter_compile_peaks.py, of one GPU: the base is quantized as from_pretrained does it, in bytes.
"""

import sys

import bitsandbytes

import adapter_compile_peaks
import adapter_step
import compile_peaks
import emulated_peaks
import peft_peaks

ALL, ATTENTION = adapter_compile_peaks.ALL, adapter_compile_peaks.ATTENTION


def shape(model, ac, **more):
    return adapter_compile_peaks.shape(model, ac) | {"quantize": "nf4", "lora_dtype": "bf16"} | more


def cases():
    for ac in ("none", "full"):
        yield shape("llama1b_4layers", ac, lora_targets=ALL)
        yield shape("llama1b_4layers", ac, lora_targets=ALL, quantize="nf4-double")
    yield shape("small_llama", "none", seq=512, lora_targets=ALL)
    yield shape("llama1b_4layers", "selective", input_require_grads="on")
    yield shape("llama1b_4layers", "memory-budget:0.5", lora_targets=ALL)
    yield shape("llama1b_4layers", "none", lora_dtype="fp32", batch=3, seq=1000, grad_accum=2)
    yield shape("qwen2_05b_4layers", "none", lora_targets=ALL)
    yield shape("qwen3_06b_4layers", "full", lora_dtype="fp32", lora_targets=ALL, quantize="nf4-double")
    yield shape("mistral7b_4layers", "none", lora_targets=ALL, quantize="nf4-double")
    yield shape("mistral7b_4layers", "full", input_require_grads="on")
    yield shape("phi3_mini_4layers", "none", lora_targets=ALL)
    yield shape("small_llama", "full", seq=512, lora_targets=ALL, shard="ddp", world=8)


def on_device(module, *more):
    """Codes are there, with their scales as attributes, which what swaps tensors would lose."""
    layers = [m for m in module.modules() if isinstance(m, bitsandbytes.nn.Linear4bit)]
    weights = [layer._parameters.pop("weight") for layer in layers]
    plain(module, *more)
    for layer, weight in zip(layers, weights):
        layer._parameters["weight"] = weight


def measure(entry):
    figures = compile_peaks.measure(entry)
    bitsandbytes.functional.name2qmap.clear()  # the code books that it keeps for a process
    return figures


plain, emulated_peaks.on_device = emulated_peaks.on_device, on_device
peft_peaks.quantize = lambda model, how, **_: adapter_step.quantize(model, how)

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
