"""Steps of families whose blocks are others' but for a fact or two: sizes, modes, layouts, adapters and autocast drawn by
a seeded generator for each family, measured before they were planned. drawn_finetune_peaks.py builds them.

PyTorch runs three of them not: FSDP2 takes no routers in fp32 beside blocks in bf16 (ernie4_5_moe_5, hunyuan_v1_moe_5), and
of a checkpoint in its mixed precision, which casts angles in fp32, it raises a CheckpointError (ernie4_5_moe_1).
"""

import random

import emulated_cases
from emulated_cases import EXPANDABLE, case, config_of, label

COUNT = 8
HEADS = ((8, 8, 64), (8, 2, 64), (12, 4, 64), (16, 4, 64), (16, 8, 128), (20, 4, 128), (24, 8, 128), (32, 8, 128), (14, 2, 64))
VOCABULARIES = (8192, 32000, 49152, 65024, 102400, 128256)
SIZES = ((1, 512), (1, 777), (1, 1024), (1, 2048), (1, 3000), (2, 509), (2, 640), (2, 1024), (3, 341), (3, 1000), (4, 512),
         (5, 333), (6, 256), (8, 200))
MODES = ("none", "none", "full", "full", "selective", "every:2")
LAYOUTS = ({}, {}, {}, {"shard": "fsdp2", "world": 4}, {"shard": "fsdp2", "world": 8}, {"shard": "fsdp2", "world": 3})
MIXED = {"param_dtype": "fp32", "compute_dtype": "bf16", "reduce_dtype": "fp32"}
AUTOCAST = ({"param_dtype": "fp32", "autocast": "bf16"}, {"param_dtype": "bf16", "autocast": "bf16"})
ATTENTION = "q_proj,k_proj,v_proj,o_proj"
DENSE = ("seed_oss", "exaone4", "ernie4_5", "hunyuan_v1_dense", "arcee", "helium")
WITH_EXPERTS = ("dots1", "glm4_moe_lite", "minimax_m2", "granitemoe", "granitemoeshared", "ernie4_5_moe", "hunyuan_v1_moe")

COMPILED, COMPILED_COUNT = ("seed_oss", "exaone4", "ernie4_5", "hunyuan_v1_dense", "arcee", "helium", "dots1"), 2
WITHOUT_DROPOUT = {"seed_oss": {"attention_dropout": 0.0, "residual_dropout": 0.0}, "dots1": {"n_group": 1, "topk_group": 1}}


def sizes(draw, family):
    heads, kv_heads, head_dim = draw.choice(HEADS)
    hidden = heads * head_dim
    if family in ("seed_oss", "exaone4", "ernie4_5", "hunyuan_v1_dense", "minimax_m2", "dots1") and draw.random() < 0.4:
        hidden = draw.choice((768, 1024, 1536, 2048))
    return {"model_type": family, "hidden_size": hidden, "intermediate_size": 32 * round(hidden * draw.uniform(2, 4.5) / 32),
            "num_hidden_layers": draw.choice((2, 3, 4, 5)), "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "head_dim": head_dim, "vocab_size": draw.choice(VOCABULARIES), "max_position_embeddings": 8192,
            "tie_word_embeddings": draw.random() < 0.4}


def without_head_dim(values):
    """Of families whose configurations have none."""
    return {key: value for key, value in values.items() if key != "head_dim"}


def seed_oss(draw):
    return sizes(draw, "seed_oss") | {"attention_bias": draw.random() < 0.8, "attention_out_bias": draw.random() < 0.3,
                                      "mlp_bias": draw.random() < 0.2, "residual_dropout": draw.choice((0.0, 0.1)),
                                      "attention_dropout": draw.choice((0.0, 0.1))}


def exaone4(draw):
    values, window = sizes(draw, "exaone4"), draw.choice((None, 256, 512, 4096))
    full = {"layer_types": ["full_attention"] * values["num_hidden_layers"]}
    return values | {"sliding_window": window} | ({"sliding_window_pattern": draw.choice((2, 3, 4))} if window else full)


def ernie4_5(draw):
    return sizes(draw, "ernie4_5") | {"use_bias": draw.random() < 0.3}


def hunyuan_v1_dense(draw):
    return sizes(draw, "hunyuan_v1_dense") | {"attention_bias": draw.random() < 0.2}


def arcee(draw):
    return sizes(draw, "arcee") | {"attention_bias": draw.random() < 0.2, "mlp_bias": draw.random() < 0.3}


def helium(draw):
    return sizes(draw, "helium") | {"attention_bias": draw.random() < 0.2, "mlp_bias": draw.random() < 0.2}


def experts(draw, values, names):
    count, top, width, shared, dense = names
    of = {count: draw.choice((8, 16, 32)), top: draw.choice((2, 4, 6)), width: draw.choice((192, 352, 512, 768))}
    if shared:
        of[shared] = draw.choice((1, 2))
    if dense:
        of[dense] = draw.choice((0, 1, 1))
    return values | of


def dots1(draw):
    names = "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts", "first_k_dense_replace"
    groups = draw.choice(((1, 1), (1, 1), (4, 2)))
    return experts(draw, sizes(draw, "dots1"), names) | {
        "norm_topk_prob": draw.random() < 0.7, "routed_scaling_factor": 2.5, "n_group": groups[0], "topk_group": groups[1],
        "attention_bias": draw.random() < 0.2} | draw.choice(({}, {}, {"sliding_window": 256, "max_window_layers": 1}))


def glm4_moe_lite(draw):
    names = "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts", None
    values = experts(draw, without_head_dim(sizes(draw, "glm4_moe_lite")), names)
    heads, layers = draw.choice((8, 10, 16, 20)), values["num_hidden_layers"]
    values |= {"num_attention_heads": heads, "num_key_value_heads": heads, "hidden_size": draw.choice((1024, 1536, 2048)),
               "q_lora_rank": draw.choice((None, 384, 768)), "kv_lora_rank": draw.choice((256, 512)), "qk_rope_head_dim": 64,
               **draw.choice(({"qk_nope_head_dim": 192, "v_head_dim": 256}, {"qk_nope_head_dim": 128, "v_head_dim": 128}))}
    groups = draw.choice(((1, 1), (1, 1), (2, 1)))
    mixed = {"mlp_layer_types": [draw.choice(("dense", "sparse")) for _ in range(layers - 1)] + ["sparse"]}
    return values | {"n_group": groups[0], "topk_group": groups[1]} | draw.choice(({}, {}, mixed))


def minimax_m2(draw):
    names = "num_local_experts", "num_experts_per_tok", "intermediate_size", None, None
    values = experts(draw, sizes(draw, "minimax_m2"), names)
    return values | draw.choice(({"rotary_dim": values["head_dim"] // 2}, {"rotary_dim": values["head_dim"] // 2}, {}))


def of_granite(draw, family):
    names = "num_local_experts", "num_experts_per_tok", "intermediate_size", None, None
    return experts(draw, without_head_dim(sizes(draw, family)), names) | {
        "embedding_multiplier": 12.0, "logits_scaling": 6.0, "residual_multiplier": 0.22, "attention_multiplier": 0.015625,
        "attention_bias": draw.random() < 0.2}


def granitemoe(draw):
    return of_granite(draw, "granitemoe")


def granitemoeshared(draw):
    return of_granite(draw, "granitemoeshared") | {"shared_intermediate_size": draw.choice((0, 512, 1024))}


def ernie4_5_moe(draw):
    names = "moe_num_experts", "moe_k", "moe_intermediate_size", "moe_num_shared_experts", "moe_layer_start_index"
    return experts(draw, without_head_dim(sizes(draw, "ernie4_5_moe")), names) | {"use_bias": False}


def hunyuan_v1_moe(draw):
    names = "num_experts", "moe_topk", "intermediate_size", None, None
    return experts(draw, sizes(draw, "hunyuan_v1_moe"), names) | {"attention_bias": draw.random() < 0.2}


def some(draw, share, **options):
    return options if draw.random() < share else {}


def step(draw, model, family, number):
    """Every family's steps have, in turn: whole models, autocast, adapters, FSDP2, adapters over shards."""
    batch, seq = draw.choice(SIZES)
    dense = family in DENSE
    entry = case(model, batch, seq, draw.choice(MODES)) | some(draw, 0.2, **EXPANDABLE) | some(draw, 0.25, grad_accum=2)
    entry |= some(draw, 0.35, attn=draw.choice(("flash", "eager"))) | some(draw, 0.25, hold_output=False)
    kind = ("whole", "sharded", "autocast", "lora", "whole", "sharded", "lora", "sharded-lora")[number % 8]
    if kind.startswith("sharded"):
        entry |= {"shard": "fsdp2", "world": draw.choice((3, 4, 8))} | some(draw, 0.3, keep_last_block=True)
    if kind == "sharded":
        entry |= some(draw, 0.35, **MIXED)
    if kind == "autocast":
        entry |= draw.choice(AUTOCAST)
    if "lora" in kind:
        targets = draw.choice(("all-linear", ATTENTION, "q_proj,v_proj")) if dense else draw.choice((ATTENTION, "q_proj,v_proj"))
        entry |= {"lora": draw.choice((8, 16, 64)), "lora_targets": targets} | some(draw, 0.5, lora_dtype="bf16")
    if "lora" not in kind:
        entry |= some(draw, 0.35, optimizer=draw.choice(("adamw-foreach", "sgd")))
    return entry


def of_latent(entry):
    """Latent attention has projections of other names, and heads of values that flash attention does not take."""
    if entry.get("lora"):
        entry = entry | {"lora_targets": "kv_a_proj_with_mqa,kv_b_proj,o_proj"}
    return {key: value for key, value in entry.items() if (key, value) != ("attn", "flash")}


def compiled_step(draw, model):
    batch, seq = draw.choice(SIZES)
    ac = draw.choice(("none", "full", "selective", "memory-budget:0.4"))
    return case(model, batch, seq, ac, kernels="compiled", attn="cudnn") | some(draw, 0.3, grad_accum=2)


def compiled_cases(family):
    draw = random.Random("named families, compiled " + family)
    for number in range(COMPILED_COUNT):
        model = f"{family}_compiled_{number}"
        emulated_cases.VALUES[model] = globals()[family](draw) | WITHOUT_DROPOUT.get(family, {})
        yield compiled_step(draw, model)


def family_cases(family):
    draw = random.Random("named families, " + family)
    for number in range(COUNT):
        model = f"{family}_{number}"
        emulated_cases.VALUES[model] = globals()[family](draw)
        entry = step(draw, model, family, number)
        yield of_latent(entry) if family == "glm4_moe_lite" else entry


def named_families_cases():
    return [entry for family in DENSE + WITH_EXPERTS for entry in family_cases(family)] \
        + [entry for family in COMPILED for entry in compiled_cases(family)]


if __name__ == "__main__":
    for entry in named_families_cases():
        print(label(entry), config_of(entry["model"]))
