"""Further steps that a seeded generator draws, from more options than drawn_cases.py's: DDP and FullyShardedDataParallel,
autocast, clipping, every attention kernel, rows whose length no power of two divides. They are in the planner's words.
"""

import functools

import transformers

from drawn_cases import MIXED, distinct, is_planned, models
from emulated_cases import EAGER_ONLY, EXPANDABLE, FAMILIES, MASKED, UNEQUAL_HEADS, VALUES, case, config_of

SEED, COUNT = 2611, 240
SIZES = ((1, 257), (1, 1023), (1, 1500), (1, 2048), (1, 2731), (1, 4099), (2, 509), (2, 1024), (2, 1999), (3, 341),
         (3, 1000), (4, 768), (4, 1111), (5, 333), (6, 512), (7, 200), (9, 129))
MODES = ("none", "none", "full", "full", "selective", "every:2", "every:3", "sqrt", "grouped:3")
LOSSES = ("ce", "ce", "ce", "chunked:512", "chunked:777", "chunked:2048")
DDP = {"shard": "ddp", "world": 8}
LAYOUTS = ({}, {}, {}, DDP, DDP, {"shard": "fsdp2", "world": 8}, {"shard": "fsdp2", "world": 3},
           {"shard": "hsdp:4", "world": 8}, {"shard": "fsdp1", "world": 8}, {"shard": "fsdp1", "world": 3})
ATTENTION = ("flash", "cudnn", "efficient", "eager")
AUTOCAST = {"param_dtype": "fp32", "autocast": "bf16"}
# Of others it is refused, of which it was not compared or casts otherwise.
IN_AUTOCAST = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3", "smollm3", "olmo2", "granite",
               "gpt2", "opt", "starcoder2", "glm", "internlm2")
# Their blocks are given cosines in fp32, which FSDP2 casts in forward and not when they are computed again: PyTorch's
# checkpoints raise where they are around what FSDP2 wraps, as here.
WIDE_ROTATIONS = ("olmo2", "olmo3")
SMALL = ("small_llama", "small_mixtral")


@functools.cache
def decoder_of(model):
    """Its configuration, with the class's defaults."""
    return transformers.AutoConfig.for_model(**config_of(model)).get_text_config()


def blocks_of(model):
    return decoder_of(model).num_hidden_layers


def is_one_of_these(entry):
    family = VALUES[entry["model"]]["model_type"]
    own_kernel = family in EAGER_ONLY + MASKED + UNEQUAL_HEADS
    decoder = decoder_of(entry["model"])
    shared = getattr(decoder, "num_key_value_heads", None) not in (None, decoder.num_attention_heads)
    if entry.get("attn") == "efficient" and (own_kernel or shared):
        return False  # that kernel does not take keys that queries share
    if entry.get("attn") == "cudnn" and own_kernel:
        return False
    if entry.get("shard") == "fsdp1" and entry["model"] not in [*FAMILIES, *SMALL]:
        return False  # compared with Llama's like
    if "autocast" in entry and (family not in IN_AUTOCAST or entry["loss"] != "ce"):
        return False
    casts_inputs = "compute_dtype" in entry and entry.get("shard") in ("fsdp2", "hsdp:4")
    if casts_inputs and family in WIDE_ROTATIONS and entry["ac"] != "none":
        return False
    if entry["ac"] == "every:3" and blocks_of(entry["model"]) < 3:
        return False
    if entry["ac"] in ("sqrt", "grouped:3"):
        if entry.get("shard") == "fsdp1" or entry["model"] in SMALL or blocks_of(entry["model"]) < 2:
            return False
        return is_planned(entry | {"ac": "grouped:2"})
    return is_planned(entry)


def draw(random, model):
    batch, seq = random.choice(SIZES)
    layout = dict(random.choice(LAYOUTS))
    entry = case(model, batch, seq, random.choice(MODES), random.choice(LOSSES), **layout)
    shard = layout.get("shard", "none")
    if random.random() < 0.3:
        entry |= EXPANDABLE
    if random.random() < 0.4:
        entry["attn"] = random.choice(ATTENTION)
    if random.random() < 0.3:
        entry["optimizer"] = random.choice(("adamw-foreach", "sgd"))
    if random.random() < 0.3:
        entry["grad_accum"] = random.choice((2, 3))
        if shard != "none" and random.random() < 0.5:
            entry["no_sync"] = True
    if random.random() < 0.25:
        entry["clip_grad"] = 1.0
    if shard[:4] in ("fsdp", "hsdp"):
        if shard != "fsdp1" and random.random() < 0.2:
            entry["keep_last_block"] = True
        if random.random() < 0.3:
            entry |= MIXED
    elif random.random() < 0.3:
        entry |= AUTOCAST
    if random.random() < 0.25:
        entry["hold_output"] = False
    return entry


def wide_cases():
    return distinct(SEED, COUNT, [*models(), *SMALL], draw, is_one_of_these)
