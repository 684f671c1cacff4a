"""Peaks and launches of training steps whose attention is neither cuDNN's nor flash, on the emulated device: in fp32,
which neither takes; by the memory-efficient kernel or by plain products where nothing else is let run; and with a
sliding window's mask, which flash attention does not take.

    ac-advisor dryrun [--world N] --output /dev/null -- python attention_peaks.py attention_peaks.json

As emulated_peaks.py; `attn` is efficient or math, too.
"""

import sys

import torch

import emulated_peaks

FP32 = {"param_dtype": "fp32", "compute_dtype": "fp32", "reduce_dtype": "fp32"}
SHARED = ("llama1b_4layers", "qwen3_06b_4layers", "mistral7b_4layers", "small_llama")  # keys that queries share
ALONE = ("smollm17b_untied_4layers", "phi3_mini_4layers", "pythia_14b_4layers", "phi2_4layers")
WINDOWS = ("gemma3_1b_6layers", "olmo3_7b_4layers")


def shape(model, batch, seq, ac="none", loss="ce", **more):
    return {"model": model, "batch": batch, "seq": seq, "ac": ac, "loss": loss} | more


def cases():
    for model in (*SHARED, *ALONE):
        for ac in ("none", "full", "selective"):
            yield shape(model, 2, 1024, ac, **FP32)
        yield shape(model, 3, 1000, **FP32)
        if model != "phi2_4layers":  # its head has a bias
            yield shape(model, 1, 777, "full", "chunked:256", **FP32)
        yield shape(model, 2, 1024, "full", shard="fsdp2", world=8, **FP32)
        yield shape(model, 2, 1024, shard="ddp", world=8, **FP32)
        for ac in ("none", "full"):
            yield shape(model, 2, 1024, ac, attn="math")
        yield shape(model, 3, 1000, attn="math")
        if model in ALONE:
            for ac in ("none", "full", "selective"):
                yield shape(model, 2, 1024, ac, attn="efficient")
            yield shape(model, 3, 1000, attn="efficient")
            yield shape(model, 1, 4096, attn="efficient")
    for model in WINDOWS:
        for ac in ("none", "full"):
            yield shape(model, 1, 1024, ac, **FP32)
            yield shape(model, 2, 4096, ac, attn="flash")
            yield shape(model, 1, 1024, ac, attn="math")
    for model, seq in (("gemma3_1b_6layers", 1003), ("olmo3_7b_4layers", 5099)):  # a mask's rows are padded to 8
        yield shape(model, 1, seq, attn="flash")
        yield shape(model, 1, seq)
    yield shape("gemma3_1b_6layers", 1, 1003, **FP32)
    for family in ("gpt2", "qwen2", "starcoder2", "falcon", "olmo2"):
        yield shape("tiny_" + family, 2, 64, **FP32)
        if family != "falcon":
            yield shape("tiny_" + family, 2, 64, "full", attn="math")


def measure(entry):
    only = entry.get("attn") if entry.get("attn") in ("efficient", "math") else None
    torch.backends.cuda.enable_flash_sdp(only is None)
    torch.backends.cuda.enable_mem_efficient_sdp(only != "math")
    torch.backends.cuda.enable_math_sdp(only != "efficient")
    if only is None:
        return emulated_peaks.measure(entry)
    cudnn = torch.backends.cuda.enable_cudnn_sdp
    torch.backends.cuda.enable_cudnn_sdp = lambda _: cudnn(False)
    try:
        return emulated_peaks.measure(entry)
    finally:
        torch.backends.cuda.enable_cudnn_sdp = cudnn


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
