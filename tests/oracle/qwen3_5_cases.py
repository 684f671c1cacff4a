"""Steps of Qwen3.5's dense and sparse models, text alone and text beside their encoder of images, that a seeded generator
draws: sizes, modes, losses, layouts, adapters and dtypes. They are in the planner's words.
"""

import random

import emulated_cases
from emulated_cases import EXPANDABLE, case

SEED, MODELS_OF_EACH, WRAPPED_OF_EACH, STEPS_OF_EACH, ADAPTED, DORA = 350, 6, 2, 18, 16, 3
MODES = ("none", "none", "full", "full", "selective", "every:2")
SIZES = ((1, 192), (1, 500), (1, 1024), (1, 1777), (1, 2048), (2, 64), (2, 333), (2, 640), (2, 1024), (3, 257), (3, 512),
         (4, 128), (4, 400))
TARGETS = ("all-linear", "q_proj,k_proj,v_proj,o_proj", "in_proj_qkv,in_proj_z,out_proj",
           "q_proj,k_proj,v_proj,o_proj,in_proj_qkv,in_proj_z,in_proj_b,in_proj_a,out_proj",
           "gate_proj,up_proj,down_proj")
MIXED = {"param_dtype": "fp32", "compute_dtype": "bf16", "reduce_dtype": "fp32"}
AUTOCAST = {"param_dtype": "fp32", "autocast": "bf16"}
VISION = {"depth": 3, "hidden_size": 256, "intermediate_size": 640, "num_heads": 4, "num_position_embeddings": 576}


def layers_of(generator, layers):
    """As published models have them, or any that has a delta net."""
    if generator.random() < 0.6:
        return {"num_hidden_layers": layers}
    kinds = [generator.choice(("linear_attention", "full_attention")) for _ in range(layers)]
    return {"num_hidden_layers": layers, "layer_types": ["linear_attention", *kinds[1:]]}


def decoder(generator, sparse):
    shared, each = generator.choice(((1, 2), (2, 1), (2, 2), (2, 4), (4, 4), (4, 2)))
    key_heads, of_one = generator.choice((2, 4, 8, 16)), generator.choice((1, 1, 2, 2, 3))
    values = {
        "hidden_size": generator.choice((256, 512, 768, 1024, 1536, 2048, 2560)),
        "num_attention_heads": shared * each, "num_key_value_heads": shared,
        "head_dim": generator.choice((64, 128, 256)), "vocab_size": generator.choice((8192, 32000, 151936, 248320)),
        "linear_num_key_heads": key_heads, "linear_num_value_heads": key_heads * of_one,
        "linear_key_head_dim": generator.choice((64, 96, 128)),
        "linear_value_head_dim": generator.choice((64, 128)),
        "linear_conv_kernel_dim": generator.choice((4, 4, 3)), "tie_word_embeddings": generator.random() < 0.4,
    } | layers_of(generator, generator.choice((2, 3, 4, 5, 8)))
    if generator.random() < 0.2:
        values["attention_bias"] = True
    if sparse:
        experts = generator.choice((4, 8, 16, 32))
        return values | {"num_experts": experts, "num_experts_per_tok": generator.choice((1, 2, 4)),
                         "moe_intermediate_size": generator.choice((128, 256, 512)),
                         "shared_expert_intermediate_size": generator.choice((128, 512, 768))}
    return values | {"intermediate_size": values["hidden_size"] * generator.choice((2, 3, 4))}


def models():
    generator = random.Random(SEED)
    for family in ("qwen3_5", "qwen3_5_moe"):
        for number in range(MODELS_OF_EACH):
            yield f"{family}_text_{number + 1}", {"model_type": family + "_text"} | decoder(
                generator, family.endswith("moe"))
        for number in range(WRAPPED_OF_EACH):
            text = decoder(generator, family.endswith("moe"))
            yield f"{family}_{number + 1}", {
                "model_type": family, "tie_word_embeddings": text["tie_word_embeddings"], "text_config": text,
                "vision_config": VISION | {"out_hidden_size": text["hidden_size"]}}


MODELS = dict(models())
emulated_cases.VALUES.update(MODELS)


def draw(generator, model):
    batch, seq = generator.choice(SIZES)
    layout = generator.choice(({}, {}, {}, {"shard": "fsdp2", "world": 2}, {"shard": "fsdp2", "world": 8}))
    entry = case(model, batch, seq, generator.choice(MODES), generator.choice(("ce", "ce", "ce", "chunked:512")),
                 **layout)
    if generator.random() < 0.25:
        entry |= EXPANDABLE
    if generator.random() < 0.3:
        entry["attn"] = generator.choice(("flash", "eager"))
    if generator.random() < 0.25:
        entry["grad_accum"] = 2
    if generator.random() < 0.35 and entry["loss"] == "ce":
        targets = generator.choice(TARGETS)
        sparse = "moe" in model
        if not (sparse and targets.startswith("gate_proj")):  # its experts are no linear layers
            return entry | {"lora": generator.choice((8, 16, 64)), "lora_targets": targets}
    if "shard" in entry and generator.random() < 0.3:
        return entry | MIXED
    if "shard" not in entry and entry["loss"] == "ce" and generator.random() < 0.25:
        return entry | AUTOCAST
    return entry


def draw_adapted(generator, model):
    """PEFT's LoRA over a base in 4 bits, with dropout or as DoRA; or a step in autocast."""
    batch, seq = generator.choice(SIZES)
    entry = case(model, batch, seq, generator.choice(MODES))
    if generator.random() < 0.35:
        return entry | AUTOCAST
    entry |= {"lora": generator.choice((8, 16)), "lora_targets": generator.choice(TARGETS[:4])}
    return entry | generator.choice(({"quantize": "nf4"}, {"quantize": "nf4"}, {"quantize": "nf4-double"},
                                     {"lora_dropout": 0.1}, {"dora": True}, {"lora_dtype": "bf16"}))


def first_cases():
    generator = random.Random(SEED + 1)
    for family in ("qwen3_5", "qwen3_5_moe"):
        mine = [name for name, values in MODELS.items() if values["model_type"].removesuffix("_text") == family]
        for number in range(STEPS_OF_EACH):
            yield draw(generator, mine[number % len(mine)])


def cases():
    yield from first_cases()
    generator = random.Random(SEED + 2)
    for number in range(ADAPTED):
        yield draw_adapted(generator, generator.choice(list(MODELS)))
    generator = random.Random(SEED + 3)
    for number in range(DORA):
        batch, seq = generator.choice(SIZES)
        yield case(generator.choice(list(MODELS)), batch, seq, generator.choice(MODES)) | {
            "lora": 8, "lora_targets": TARGETS[3], "dora": True}
