"""As emulated_peaks.py, of heads wider than 256, which neither flash attention nor cuDNN's takes: by the memory-efficient
kernel, or by plain products where queries share keys.

    ac-advisor dryrun [--world N] --output /dev/null -- python wide_heads_peaks.py wide_heads_peaks.json
"""

import sys

import compile_peaks
import emulated_cases
import emulated_peaks
from emulated_cases import case
from generate_peaks import sizes

FP32 = {"param_dtype": "fp32", "compute_dtype": "fp32", "reduce_dtype": "fp32"}
FSDP = {"shard": "fsdp2", "world": 2}
HEADS = (260, 264, 288, 320, 512)


def of_heads(width, heads, shared, model_type, **more):
    return sizes(heads * width, 4096, 3, heads, shared, width, 32000, False, model_type=model_type, **more)


MODELS = {f"{model_type}_heads_of_{width}{'' if shared == heads else '_shared'}":
          of_heads(width, heads, shared, model_type, **more)
          for width in HEADS for heads, shared, model_type, more in (
              (6, 6, "llama", {}), (6, 2, "qwen3", {}), (4, 4, "mistral", {"sliding_window": 512}))}
emulated_cases.VALUES.update(MODELS)


def cases():
    for width in HEADS:
        for ac in ("none", "full"):
            yield case(f"llama_heads_of_{width}", 2, 1024, ac)
            yield case(f"qwen3_heads_of_{width}_shared", 1, 1000, ac)
        yield case(f"mistral_heads_of_{width}", 1, 1024)
    for width in (288, 512):
        yield case(f"llama_heads_of_{width}", 3, 700, "selective", grad_accum=2)
        yield case(f"qwen3_heads_of_{width}_shared", 2, 1024, "selective", held_until="next-forward")
        yield case(f"llama_heads_of_{width}", 1, 1024, **FP32)
        yield case(f"llama_heads_of_{width}", 1, 2048, "full", **FSDP)
        for attn in ("flash", "eager"):
            yield case(f"llama_heads_of_{width}", 2, 512, "full", attn=attn)
        for ac in ("none", "full"):
            yield case(f"llama_heads_of_{width}", 2, 1024, ac, kernels="compiled", attn="cudnn")
            yield case(f"qwen3_heads_of_{width}_shared", 1, 1024, ac, kernels="compiled", attn="cudnn")


def measure(entry):
    return (compile_peaks if "kernels" in entry else emulated_peaks).measure(entry)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
