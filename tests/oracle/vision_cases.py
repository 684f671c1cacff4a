"""The steps of vision_peaks.py, drawn by a seeded generator: images of the vision-language models that people train, what
of a model is frozen, and whether the encoder's layers are checkpointed."""

import random

from emulated_cases import EXPANDABLE, VALUES, case, config_of, label
from image_sizes import grid_of

SEED, DRAWS, ADAPTER_DRAWS, DDP_DRAWS = 20261128, 64, 30, 22
TINY_TOKENS = {"image_token_id": 7, "video_token_id": 8, "vision_start_token_id": 9, "vision_end_token_id": 10}
QWEN_TEXT = {"max_position_embeddings": 32768}
VALUES |= {
    "qwen25_vl_7b_2layers": {
        "model_type": "qwen2_5_vl",
        "text_config": QWEN_TEXT | {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 2,
                                    "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064},
        "vision_config": {"hidden_size": 1280, "out_hidden_size": 3584}},
    "tiny_qwen2_5_vl_images": VALUES["tiny_qwen2_5_vl"] | TINY_TOKENS,
    "tiny_qwen3_vl_images": VALUES["tiny_qwen3_vl"] | TINY_TOKENS,
    "qwen3_vl_4b_4layers": {
        "model_type": "qwen3_vl",
        "text_config": QWEN_TEXT | {"hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 4,
                                    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                                    "vocab_size": 151936, "tie_word_embeddings": True},
        "vision_config": {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "num_heads": 16,
                          "out_hidden_size": 2560, "deepstack_visual_indexes": [5, 11, 17]},
        "tie_word_embeddings": True},
}
MODELS = ("qwen25_vl_7b_2layers", "qwen3_vl_4b_4layers", "qwen25_vl_3b_4layers", "qwen3_vl_8b_4layers", "tiny_qwen2_5_vl_images",
          "tiny_qwen3_vl_images", "qwen25_vl_3b_4layers", "qwen3_vl_4b_4layers", "llava15_7b_4layers")
FROZEN = ("", "tower", "tower,projector", "decoder", "tower,decoder", "projector", "projector,decoder", "tower")
MOST_TOKENS = 6144  # of a micro-batch


def image_tokens(model, height, width):
    vision = config_of(model)["vision_config"]
    rows, columns = grid_of(f"{height}x{width}", vision["patch_size"] * vision["spatial_merge_size"])
    return rows * columns


def sizes(draw, model):
    """Sequences that hold their images, each between two tokens of text."""
    while True:
        images, batch = draw.choice((1, 1, 2, 3)), draw.choice((1, 1, 2, 3))
        if "llava" in model:
            more, tokens = {}, 576
        else:
            height, width = draw.randint(56, 1100), draw.randint(56, 1100)
            more, tokens = {"image_pixels": f"{height}x{width}"}, image_tokens(model, height, width)
        seq = images * (tokens + 2) + draw.randint(16, 1200)
        if batch * seq <= MOST_TOKENS:
            return batch, seq, {"images": images} | more


def drawn():
    """Unlike ones; each model and each choice of what is frozen as often as any other."""
    draw, have = random.Random(SEED), set()
    for n in range(DRAWS):
        model = MODELS[n % len(MODELS)]
        batch, seq, more = sizes(draw, model)
        if frozen := FROZEN[n % len(FROZEN)]:
            more["freeze"] = frozen
        if draw.random() < 0.4:
            more["tower_ac"] = True
        if draw.random() < 0.3:
            more["attn"] = "flash"
        for key, value, chance in (("grad_accum", 2, 0.2), ("optimizer", "adamw-foreach", 0.2)):
            if draw.random() < chance:
                more[key] = value
        if draw.random() < 0.2:
            more |= EXPANDABLE
        loss = draw.choice(("ce", "ce", "ce", "chunked:512")) if "decoder" not in frozen else "ce"
        entry = case(model, batch, seq, draw.choice(("none", "full", "full", "every:2", "selective")), loss, **more)
        if label(entry) not in have:
            have.add(label(entry))
            yield entry


ADAPTED = MODELS[:6]
TARGETS = ("q_proj,v_proj", "all-linear", "q_proj,k_proj,v_proj,o_proj", "gate_proj,up_proj,down_proj")
BASES = ({}, {"quantize": "nf4"}, {}, {"quantize": "nf4-double"}, {})


def drawn_adapters():
    """As drawn, of PEFT's adapters: of all layers whose names the targets are, the encoder's among them."""
    draw, have = random.Random(SEED + 1), set()
    for n in range(ADAPTER_DRAWS):
        model = ADAPTED[n % len(ADAPTED)]
        batch, seq, more = sizes(draw, model)
        if draw.random() < 0.4:
            more["tower_ac"] = True
        if draw.random() < 0.3:
            more["attn"] = "flash"
        if draw.random() < 0.2:
            more["grad_accum"] = 2
        entry = case(model, batch, seq, draw.choice(("none", "full", "full", "every:2")), lora=draw.choice((8, 16)),
                     lora_targets=draw.choice(TARGETS), lora_dtype=draw.choice(("fp32", "bf16")),
                     **BASES[n % len(BASES)], **more)
        if label(entry) not in have:
            have.add(label(entry))
            yield entry


def drawn_ddp():
    """As both, of eight ranks that have the model whole."""
    draw, have = random.Random(SEED + 2), set()
    for n in range(DDP_DRAWS):
        model = ADAPTED[n % len(ADAPTED)]
        batch, seq, more = sizes(draw, model)
        if draw.random() < 0.4:
            more["tower_ac"] = True
        if draw.random() < 0.2:
            more["grad_accum"] = 2
        if n % 2:
            more |= {"lora": draw.choice((8, 16)), "lora_targets": draw.choice(TARGETS),
                     "lora_dtype": draw.choice(("fp32", "bf16"))}
        elif frozen := draw.choice(FROZEN):
            more["freeze"] = frozen
        entry = case(model, batch, seq, draw.choice(("none", "full", "full", "every:2")), shard="ddp", world=8, **more)
        if label(entry) not in have:
            have.add(label(entry))
            yield entry
