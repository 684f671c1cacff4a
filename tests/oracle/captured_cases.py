"""The cases of captured_peaks.py: types of transformers 5.23 that have no family, by their class's defaults with few
layers and experts, and steps of them in the planner's words."""

import functools
import random

from transformers import PreTrainedConfig
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
LEAST = {"zamba": 9}  # its second layer of attention: the weights that they share are looked for
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
MOST_EXPERTS = 16


# What a class's defaults leave out without which transformers' own model of them is not made or does not run, as
# published configurations have it where there are such.
RUNS_WITH = {
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
    "dbrx": {"attn_config": {"kv_n_heads": 8, "clip_qkv": 8.0, "rope_theta": 500000.0}},
    "deepseek_v2": {"num_experts_per_tok": 6, "moe_intermediate_size": 1408},
    "dots1": {"n_routed_experts": 128, "num_experts_per_tok": 6, "n_shared_experts": 2},
    "glm4_moe": {"head_dim": 128},
    "granitemoehybrid": {"num_hidden_layers": 4, "layer_types": ["mamba", "mamba", "attention", "mamba"]},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128, "num_experts": 64, "moe_topk": 8},
    "lfm2_moe": {"layer_types": (["conv"] * 3 + ["full_attention"]) * 8},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8},
    "qwen4_exp_text": {"indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 128, "indexer_budget": 2048,
                       "indexer_compress_ratio": 16, "rope_parameters": {
                           "rope_type": "default", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25}},
    "reformer": {"is_decoder": True, "axial_pos_shape": [8, 16]},
    "xmod": {"default_language": "en_XX"},
}
RUNS_WITH["qwen4_exp"] = {"text_config": RUNS_WITH["qwen4_exp_text"]}


def kinds(values):
    return {repr(value) for value in values}


def few_layers(values, least, most=8):
    """In place: of lists by layer as many first ones as have every kind, `least` at least."""
    names = [name for name in LAYERS if isinstance(values.get(name), int)]
    if not names:
        return
    layers = values[names[0]]
    by_layer = [name for name, value in values.items() if isinstance(value, list) and len(value) == layers > 2]
    few = min(layers, least)
    while few < min(layers, most) and any(kinds(values[n][:few]) != kinds(values[n]) for n in by_layer):
        few += 1
    values |= {name: values[name][:few] for name in by_layer} | dict.fromkeys(names, few)
    if isinstance(values.get("per_layer_config"), dict):
        values["per_layer_config"] = {k: v for k, v in values["per_layer_config"].items() if int(k) < few}


def few_experts(values):
    values |= {name: min(values[name], MOST_EXPERTS) for name in EXPERTS if isinstance(values.get(name), int)}


def small(model_type, head="CAUSAL_LM", few=True, **more):
    """What transformers would write to config.json of a small model of this type, whose class has this head; of all
    layers and experts where not `few`; `more`: values of its own."""
    values = CONFIG_MAPPING[model_type](**RUNS_WITH.get(model_type, {}) | more).to_dict()
    for part in [values] + [values[n] for n in ("text_config", "decoder_config") if isinstance(values.get(n), dict)]:
        if few:
            few_layers(part, LEAST.get(model_type, 2))
            few_experts(part)
    classes = getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES")[model_type]
    values["architectures"] = [classes if isinstance(classes, str) else classes[0]]
    return PreTrainedConfig._encode_special_floats(values | {"model_type": model_type})


@functools.cache
def all_types():
    return list(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


# What of the class's defaults must be otherwise.
TYPES = {
    "gemma4_text": {}, "qwen3_5_text": {}, "qwen3_5_moe_text": {}, "deepseek_v32": {}, "glm4_moe_lite": {},
    "glm_moe_dsa": {}, "minimax_m2": {}, "nemotron_h": {}, "lfm2": {},
    "granitemoehybrid": {}, "seed_oss": {},
    "ernie4_5": {}, "ernie4_5_moe": {}, "exaone4": {}, "olmo_hybrid": {}, "apertus": {}, "arcee": {},
    "helium": {}, "mamba": {}, "mamba2": {}, "falcon_mamba": {}, "bamba": {}, "jamba": {}, "zamba2": {}, "rwkv": {},
    "gpt_bigcode": {}, "mpt": {}, "codegen": {}, "biogpt": {}, "gpt_neo": {}, "persimmon": {}, "olmo": {},
    "bitnet": {}, "jais2": {}, "vaultgemma": {}, "youtu": {}, "flex_olmo": {}, "doge": {}, "blt": {}, "hrm_text": {},
}
HEADS = {
    "t5": "SEQ_TO_SEQ_CAUSAL_LM", "bart": "SEQ_TO_SEQ_CAUSAL_LM", "bert": "MASKED_LM",
    "modernbert": "SEQUENCE_CLASSIFICATION", "roberta": "TOKEN_CLASSIFICATION", "distilbert": "QUESTION_ANSWERING",
    "vit": "IMAGE_CLASSIFICATION", "whisper": "SPEECH_SEQ_2_SEQ",
}
# By their families, and those that transformers' own class does not run of (docs/captured_types.md).
PLANNED_BY_FAMILY = (
    "bloom cohere cohere2 deepseek_v2 deepseek_v3 falcon gemma gemma2 gemma3 gemma3_text glm glm4 glm4_moe gpt2 gpt_neox "
    "gpt_oss gptj granite llama llama4 llama4_text ministral3 mistral mixtral nemotron olmo2 olmo3 olmoe opt phi phi3 "
    "phimoe qwen2 qwen2_moe qwen3 qwen3_moe qwen3_next smollm3 stablelm starcoder2").split()
NOT_RUN = "gemma3n gemma4_assistant gemma4_unified_assistant musicgen musicgen_melody".split()
DRAWN, SEED = 32, 20261128
BATCH, SEQ = 4, 512
# Those that are scanned token by token, in Python; Whisper's texts are short.
SEQS = dict.fromkeys(("mamba", "falcon_mamba", "jamba", "rwkv", "hrm_text"), 64) | {"whisper": 128}


def config_of(model):
    return small(model, HEADS.get(model, "CAUSAL_LM"), **TYPES.get(model, {}))


def all_cases():
    for model in [*TYPES, *HEADS]:
        for ac in ("none", "full"):
            yield {"model": model, "batch": BATCH, "seq": SEQS.get(model, SEQ), "ac": ac}
    for model in ("qwen3_5_text", "gemma4_text", "lfm2", "bert", "t5", "vit"):
        for ac in ("none", "full"):
            yield {"model": model, "batch": BATCH, "seq": SEQ, "ac": ac, "param_dtype": "fp32", "autocast": "bf16"}


def drawn_cases():
    """Of types that were not compared before, each at a size of its own: without checkpoints, and with some."""
    draw = random.Random(SEED)
    known = {*TYPES, *PLANNED_BY_FAMILY, *NOT_RUN}
    for model in draw.sample([name for name in all_types() if name not in known], DRAWN):
        size = {"batch": draw.randint(1, 4), "seq": draw.choice((96, 128, 200, 256))}
        more = {"param_dtype": "fp32", "autocast": "bf16"} if draw.random() < 0.25 else {}
        for ac in ("none", draw.choice(("full", "every:2", "selective"))):
            yield {"model": model} | size | {"ac": ac} | more
