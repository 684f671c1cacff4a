"""Steps that nobody chose: families, modes, losses, layouts and sizes drawn by a seeded generator.

What was planned to meet the cases of emulated_cases.py has to meet these as well. They are in its words.
"""

import random

from emulated_cases import (EXPANDABLE, FAMILIES, MASKED, OTHER_VALUES, OTHERS, VALUES, WITH_IMAGES, case, config_of,
                            fits_family, label)

SEED, COUNT = 13, 160
SIZES = ((1, 512), (1, 1024), (1, 1777), (1, 2048), (1, 3000), (1, 4096), (2, 640), (2, 1000), (2, 1536), (2, 2048),
         (3, 777), (3, 1024), (4, 512), (4, 1024), (5, 333), (6, 600), (8, 256))
MODES = ("none", "none", "full", "full", "selective", "every:2", "grouped:2")
LOSSES = ("ce", "ce", "ce", "chunked:512", "chunked:1024")
# Not ddp, which wide_cases.py draws.
LAYOUTS = (
    {}, {}, {}, {}, {"shard": "fsdp2", "world": 8}, {"shard": "fsdp2", "world": 8}, {"shard": "fsdp2", "world": 3},
    {"shard": "hsdp:4", "world": 8})
MIXED = {"param_dtype": "fp32", "compute_dtype": "bf16", "reduce_dtype": "fp32"}
# Compared in fewer modes than others: what else there is of them is refused by name.
NARROW = ("qwen3_next",)


def models():
    """Of every family those of real sizes; without dropout, as recomputation draws it anew."""
    narrow = [name for family in NARROW + tuple(WITH_IMAGES) for name in OTHERS[family][1]]
    return list(FAMILIES) + [n for n in OTHER_VALUES if not n.startswith("tiny_") and n not in narrow]


def eager_only_fails(entry):
    """Falcon's own eager attention is refused by name; a configuration whose keys have more heads than its queries
    fails in transformers'."""
    family = VALUES[entry["model"]]["model_type"]
    return entry.get("attn") == "eager" and (family in MASKED or entry["model"].startswith("deepseek_v3_16"))


def is_planned(entry):
    """Positions beyond a learned table are not there; Segment is written for blocks like Llama's."""
    family = VALUES[entry["model"]]["model_type"]
    table = {"gpt2": "n_positions", "opt": "max_position_embeddings"}.get(family)
    beyond = table and entry["seq"] > config_of(entry["model"])[table]
    segments = entry["ac"].startswith("grouped") and entry["model"] not in FAMILIES
    return fits_family(entry) and not beyond and not segments and not eager_only_fails(entry)


def draw(random, model):
    batch, seq = random.choice(SIZES)
    layout = dict(random.choice(LAYOUTS))
    entry = case(model, batch, seq, random.choice(MODES), random.choice(LOSSES), **layout)
    sharded = layout.get("shard", "none")
    if random.random() < 0.25:
        entry |= EXPANDABLE
    if random.random() < 0.3:
        entry["attn"] = random.choice(("flash", "eager"))
    if random.random() < 0.3:
        entry["optimizer"] = random.choice(("adamw-foreach", "sgd"))
    if random.random() < 0.3:
        entry["grad_accum"] = random.choice((2, 3))
        if sharded != "none" and random.random() < 0.5:
            entry["no_sync"] = True
    if sharded[:4] in ("fsdp", "hsdp"):
        if random.random() < 0.2:
            entry["keep_last_block"] = True
        if random.random() < 0.25:
            entry |= MIXED
    if random.random() < 0.25:
        entry["hold_output"] = False
    return entry


def distinct(seed, count, of_models, draw_one, accepts):
    """Steps that are accepted, each once, each model about as often as any other."""
    generator = random.Random(seed)
    names, seen = [], set()
    while len(seen) < count:
        if not names:
            names = list(of_models)
            generator.shuffle(names)
        entry = draw_one(generator, names.pop())
        if accepts(entry) and label(entry) not in seen:
            seen.add(label(entry))
            yield entry


def drawn_cases():
    return distinct(SEED, COUNT, models(), draw, is_planned)
