"""Peaks and launches of steps with PEFT's adapters in compiled blocks, over a frozen base.

    ac-advisor dryrun --output /dev/null -- python adapter_compile_peaks.py adapter_compile_peaks.json

As compile_peaks.py, of peft_peaks.py's model. `input_require_grads: on` has the hook that PEFT's call of that name puts on
the embedding; without it the first block's input needs no gradient, and what is compiled for it is another graph.
"""

import sys

import compile_peaks
import emulated_peaks
import peft_peaks

ALL, ATTENTION = "all-linear", "q_proj,v_proj"


def shape(model, ac, **more):
    return {"model": model, "batch": 2, "seq": 2048, "ac": ac, "loss": "ce", "kernels": "compiled",
            "attn": "cudnn", "lora": 16, "lora_targets": ATTENTION, "input_require_grads": "off"} | more


def cases():
    for model in ("llama1b_4layers", "qwen3_06b_4layers", "mistral7b_4layers"):
        for ac in ("none", "full"):
            yield shape(model, ac)
            yield shape(model, ac, lora_dtype="bf16", lora_targets=ALL)
    for ac in ("selective", "memory-budget:0.5"):
        yield shape("llama1b_4layers", ac)
        yield shape("llama1b_4layers", ac, lora_dtype="bf16", lora_targets=ALL, input_require_grads="on")
    for ac in ("none", "full"):
        yield shape("llama1b_4layers", ac, lora_targets=ALL, input_require_grads="on")
    yield shape("llama1b_4layers", "none", lora_dtype="bf16", input_require_grads="on")
    yield shape("llama1b_4layers", "none", batch=3, seq=1000, grad_accum=2)
    for model in ("qwen2_05b_4layers", "olmo2_7b_4layers", "smollm3_3b_4layers", "granite31_8b_4layers"):
        yield shape(model, "none", lora_targets=ALL)
        yield shape(model, "full", lora_dtype="bf16")
    yield shape("small_llama", "none", seq=512)


def model_of(entry):
    model = peft_peaks.model_of(entry)
    if entry["input_require_grads"] == "on":
        model.get_input_embeddings().register_forward_hook(lambda _, __, output: output.requires_grad_(True))
    return model


emulated_peaks.model_of = model_of

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), compile_peaks.measure, __doc__))
