"""Peaks and launches of compiled blocks whose attention is not one kernel: transformers' eager_attention_forward.

    ac-advisor dryrun [--world 8] --output /dev/null -- python eager_compile_peaks.py eager_compile_peaks.json

As compile_peaks.py, of drawn steps; those with adapters are adapter_compile_peaks.py's.
"""

import random
import sys

import adapter_compile_peaks
import compile_peaks
import emulated_cases
import emulated_peaks
import peft_peaks
from emulated_cases import case
from generate_peaks import sizes

CAPPED = {"model_type": "gemma2", "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
GEMMA2 = emulated_cases.VALUES["gemma2_2b_4layers"]
emulated_cases.VALUES |= {
    "gemma2_2b_2layers": GEMMA2 | {"num_hidden_layers": 2},
    "gemma2_2b_2layers_window": GEMMA2 | {"num_hidden_layers": 2, "sliding_window": 512},
    "gemma2_9b_2layers": sizes(3584, 14336, 2, 16, 8, 256, 256000, True, sliding_window=4096, query_pre_attn_scalar=256,
                               **CAPPED),
    "gemma2_27b_2layers": sizes(4608, 36864, 2, 32, 16, 128, 256000, True, sliding_window=4096, query_pre_attn_scalar=144,
                                **CAPPED),
}
CAPPED_MODELS = ("gemma2_2b_2layers", "gemma2_2b_2layers", "gemma2_2b_2layers_window", "gemma2_9b_2layers", "gemma2_27b_2layers")
OTHERS = ("llama1b_4layers", "qwen3_06b_4layers", "qwen2_05b_4layers", "mistral7b_4layers", "gemma3_1b_6layers",
          "smollm17b_untied_4layers", "olmo2_7b_4layers")
ADAPTERS = ({"lora": 16, "lora_targets": "all-linear", "input_require_grads": "off"},
            {"lora": 8, "lora_targets": "q_proj,v_proj", "lora_dtype": "bf16", "input_require_grads": "on"})
SHARDS = ({}, {}, {"shard": "fsdp2", "world": 8})


def drawn(seed, models, count, modes=("none", "full")):
    draw = random.Random(seed)
    for number in range(count):
        batch, seq = draw.choice(((1, 2048), (2, 2048), (2, 1024), (4, 512), (8, 256), (3, 1000), (2, 777)))
        more = {"attn": "eager", "kernels": "compiled"} | draw.choice(SHARDS)
        if number % 4 == 3:
            more = {"attn": "eager", "kernels": "compiled"} | draw.choice(ADAPTERS)
        elif draw.random() < 0.25:
            more |= {"param_dtype": "fp32", "autocast": "bf16"}
        yield case(draw.choice(models), batch, seq, draw.choice(modes), **more)


def cases():
    seen = []
    for entry in (*drawn("eager attention of soft-capped scores, compiled", CAPPED_MODELS, 20),
                  *drawn("eager attention of others, compiled", OTHERS, 12),
                  *drawn("their policies and budgets", CAPPED_MODELS[:4] + OTHERS[:3], 9,
                         ("selective", "selective", "memory-budget:0.5", "memory-budget:0.2"))):
        if entry not in seen:
            seen.append(entry)
    return seen


def model_of(entry):
    return adapter_compile_peaks.model_of(entry) if "lora" in entry else peft_peaks.plain(entry)


emulated_peaks.model_of = model_of

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), compile_peaks.measure, __doc__))
