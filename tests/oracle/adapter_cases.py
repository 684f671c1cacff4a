"""The cases of adapter_peaks.json: (label, config.json, options)."""

from emulated_cases import EAGER_ONLY, MASKED, config_of
from generate_peaks import sizes


def of(model_type, *figures, **more):
    common = {"max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "pad_token_id": 0}
    return sizes(*figures, model_type=model_type, **(common | more))


MODELS = {
    "llama1b": of("llama", 2048, 8192, 4, 32, 8, 64, 128256, True),
    "llama8b": of("llama", 4096, 14336, 2, 32, 8, 128, 128256, False),
    "mistral": of("mistral", 4096, 14336, 2, 32, 8, 128, 32768, False, sliding_window=None),
    "qwen2": of("qwen2", 1536, 8960, 4, 12, 2, 128, 151936, True),
    "qwen3": of("qwen3", 1024, 3072, 4, 16, 8, 128, 151936, True),
    "gemma": of("gemma", 2048, 8192, 2, 8, 1, 256, 256000, True),
    "gemma2": of("gemma2", 2304, 9216, 2, 8, 4, 256, 256000, True, sliding_window=4096, query_pre_attn_scalar=256,
                    attn_logit_softcapping=50.0, final_logit_softcapping=30.0),
    "gemma3": of("gemma3_text", 1152, 6912, 4, 4, 1, 256, 262144, True, sliding_window=4096,
                    query_pre_attn_scalar=256),
    "phi3": of("phi3", 3072, 8192, 2, 32, 32, 96, 32064, False, sliding_window=None),
    "granite": of("granite", 2048, 8192, 3, 32, 8, 64, 49152, True, embedding_multiplier=12.0,
                     residual_multiplier=0.22, logits_scaling=8.0, attention_multiplier=0.015625),
    "smollm3": of("smollm3", 2048, 11008, 4, 16, 4, 128, 128256, True),
    "olmo2": of("olmo2", 4096, 11008, 2, 32, 32, 128, 100352, False),
}


# PEFT has no targets of its own for these.
NAMED = {"phi3": "qkv_proj", "granite": "q_proj,v_proj", "smollm3": "q_proj,v_proj", "olmo2": "q_proj,v_proj"}
ALL = {"lora_targets": "all-linear"}
EVERY_MODEL = (
    {"lora": 16},
    {"lora": 16} | ALL,
    {"lora": 8, "lora_dtype": "bf16"} | ALL,
    {"lora": 16, "ac": "full"} | ALL,
    {"lora": 16, "quantize": "nf4"} | ALL,
    {"lora": 16, "quantize": "nf4", "ac": "full"} | ALL,
)
FURTHER = (
    {"lora": 16, "lora_dropout": 0.05} | ALL,
    {"lora": 16, "lora_dropout": 0.05, "ac": "full"} | ALL,
    {"lora": 16, "input_require_grads": "on"},
    {"lora": 16, "ac": "full", "input_require_grads": "off"},
    {"lora": 16, "ac": "every:2"} | ALL,
    {"lora": 64, "optimizer": "adamw-foreach"} | ALL,
    {"lora": 64, "optimizer": "sgd"} | ALL,
    {"lora": 16, "hold_output": False} | ALL,
    {"lora": 16, "grad_accum": 2} | ALL,
    {"lora": 16, "lora_targets": "gate_proj,up_proj,down_proj"},
    {"lora": 16, "lora_targets": "k_proj"},
    {"lora": 16, "param_dtype": "fp32", "attn": "eager"} | ALL,
    {"lora": 16, "quantize": "nf4-double"} | ALL,
    {"lora": 16, "quantize": "nf4-double", "ac": "full"},
    {"lora": 16, "quantize": "int8"},
    {"lora": 16, "quantize": "int8"} | ALL,
    {"lora": 16, "quantize": "int8", "ac": "full"} | ALL,
    {"lora": 16, "quantize": "nf4", "lora_dtype": "bf16", "lora_dropout": 0.1} | ALL,
    {"lora": 16, "quantize": "nf4", "grad_accum": 2, "ac": "full"} | ALL,
)

WIDE = {"param_dtype": "fp32"}
AUTOCAST = {"autocast": "bf16", "param_dtype": "bf16"}
KBIT = {"quantize": "nf4", "kbit_prepare": True}
KBIT_AUTOCAST = KBIT | {"autocast": "bf16"}
UNDER_AUTOCAST = (
    {"lora": 16} | AUTOCAST | ALL,
    {"lora": 16} | AUTOCAST | WIDE | ALL,
    {"lora": 16, "ac": "full"} | AUTOCAST | WIDE | ALL,
    {"lora": 16, "quantize": "nf4"} | AUTOCAST | ALL,
    {"lora": 16} | KBIT_AUTOCAST | ALL,
    {"lora": 16, "ac": "full"} | KBIT_AUTOCAST | ALL,
)
FURTHER_UNDER_AUTOCAST = (
    {"lora": 16} | AUTOCAST,
    {"lora": 16, "ac": "full"} | AUTOCAST,
    {"lora": 16, "ac": "every:2"} | AUTOCAST | WIDE | ALL,
    {"lora": 16, "lora_dtype": "bf16"} | AUTOCAST | ALL,
    {"lora": 16, "lora_dtype": "bf16"} | AUTOCAST | WIDE | ALL,
    {"lora": 16, "lora_dropout": 0.05} | AUTOCAST | ALL,
    {"lora": 16, "lora_dropout": 0.05, "ac": "full"} | AUTOCAST | WIDE | ALL,
    {"lora": 16, "hold_output": False} | AUTOCAST | WIDE | ALL,
    {"lora": 16, "grad_accum": 2} | AUTOCAST | WIDE | ALL,
    {"lora": 16, "input_require_grads": "on"} | AUTOCAST | WIDE,
    {"lora": 16, "quantize": "nf4-double", "ac": "full"} | AUTOCAST | ALL,
    {"lora": 16, "quantize": "nf4", "lora_dtype": "bf16", "lora_dropout": 0.1} | AUTOCAST | ALL,
    {"lora": 16, "quantize": "nf4", "grad_accum": 2, "ac": "full"} | AUTOCAST | ALL,
    {"lora": 16, "quantize": "int8"} | AUTOCAST | ALL,
    {"lora": 16, "quantize": "int8", "ac": "full"} | AUTOCAST | ALL,
    {"lora": 16} | KBIT_AUTOCAST | {"quantize": "int8"} | ALL,
    {"lora": 16, "lora_dropout": 0.05} | KBIT_AUTOCAST | ALL,
    {"lora": 16, "lora_dtype": "bf16", "ac": "full"} | KBIT_AUTOCAST,
    {"lora": 16, "attn": "eager"} | KBIT | ALL,
    {"lora": 16, "attn": "eager", "ac": "full"} | KBIT | ALL,
    {"lora": 16, "attn": "eager", "quantize": "int8", "kbit_prepare": True} | ALL,
)
DORA = {"lora": 16, "dora": True}
WITH_DORA = (
    DORA | ALL,
    DORA | {"ac": "full"} | ALL,
    DORA | AUTOCAST | ALL,
    DORA | AUTOCAST | WIDE | ALL,
    DORA | {"quantize": "nf4"} | ALL,
    DORA | {"ac": "full"} | KBIT_AUTOCAST | ALL,
)


# Families whose linear layers are called otherwise: c_attn, dense_h_to_4h, fc1. The last is what some layers are named.
OWN_NAMES = {
    "gpt2_12layers": ("gpt2", "c_proj"), "pythia_14b_4layers": ("gpt_neox", "dense,dense_4h_to_h"),
    "neox_in_turn_4layers": ("gpt_neox", "query_key_value,dense"), "phi2_4layers": ("phi", "k_proj,dense"),
    "opt_13b_4layers": ("opt", "out_proj,fc2"), "gptj_6b_4layers": ("gptj", "fc_in,fc_out"),
    "falcon_7b_4layers": ("falcon", "dense"), "falcon_11b_2layers": ("falcon", "dense_h_to_4h"),
    "bloom_7b1_4layers": ("bloom", "dense,dense_4h_to_h"), "starcoder2_3b_4layers": ("starcoder2", "c_fc,c_proj"),
    "stablelm2_16b_4layers": ("stablelm", "o_proj,up_proj"),
}
WITHOUT_DEFAULTS = ("starcoder2",)


def with_own_names():
    for model, (family, some) in OWN_NAMES.items():
        config = config_of(model)
        chosen = list(EVERY_MODEL) + [{"lora": 16, "lora_targets": some}, {"lora": 16, "lora_dropout": 0.05} | ALL,
                                      {"lora": 16} | AUTOCAST | ALL]
        for options in chosen:
            if family == "gpt2" and "quantize" in options:  # Conv1D
                continue
            if family in ("gptj", "falcon", "bloom") and "autocast" in options:  # refused, of scores
                continue
            if family in WITHOUT_DEFAULTS and "lora_targets" not in options:
                options = {"lora_targets": "q_proj,v_proj"} | options
            if family in EAGER_ONLY + MASKED:
                options = {"attn": "eager" if family in EAGER_ONLY else "auto"} | options
            options = {"batch": 2, "seq": 1024} | options
            yield label(model, options), config, options


def cases():
    yield from with_own_names()
    for model in MODELS:
        further = FURTHER + FURTHER_UNDER_AUTOCAST if model in ("llama1b", "qwen2") else ()
        further += WITH_DORA if model in ("llama1b", "llama8b", "mistral", "qwen2", "qwen3") else ()
        for options in EVERY_MODEL + UNDER_AUTOCAST + further:
            options = {"batch": 2, "seq": 1024} | options
            if model == "gemma2":
                options |= {"attn": "eager"}
            if "lora_targets" not in options and model in NAMED:
                options |= {"lora_targets": NAMED[model]}
            yield label(model, options), MODELS[model], options


def label(model, options):
    return model + " " + " ".join(f"{k}={v}" for k, v in options.items())
