"""The cases of graph_peaks.py: models as `make_model(batch, seq)`, and the planner's options."""

import os
import sys

import transformers

from emulated_cases import FAMILIES, config_of
import torch

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "graphs")
sys.path.insert(0, EXAMPLES)

MODELS = {  # batch, seq, modes
    "small_llama": (2, 512), "llama1b_4layers": (2, 1024), "qwen3_06b_4layers": (2, 1000),
    "mistral7b_4layers": (1, 1024),
    "my_model": (4, 512), "vision_transformer": (16, 224), "dit": (8, 256), "t5": (8, 256), "recommender": (2048, 1), "mamba": (2, 256),
}
# Captured at the sizes above with --scale, planned at these. None of them is a size that is captured then.
SCALED = {
    "small_llama": [(7, 640, "none"), (48, 2048, "full"), (2, 3000, "none")],
    "llama1b_4layers": [(5, 2048, "none"), (6, 4096, "full"), (2, 777, "none"), (8, 1024, "every:2")],
    "qwen3_06b_4layers": [(6, 2048, "none"), (2, 8192, "full")],
    "mistral7b_4layers": [(4, 2048, "none"), (2, 4000, "selective")],
    "my_model": [(16, 1000, "none"), (32, 2048, "full"), (3, 4096, "selective"), (16, 512, "none")],
    "vision_transformer": [(64, 224, "none"), (24, 384, "full")],
    "dit": [(32, 256, "none"), (12, 1024, "full")],
    "t5": [(24, 256, "none"), (4, 1000, "full")],
    "recommender": [(30000, 1, "none"), (10000, 1, "none")],
    "mamba": [(7, 256, "none"), (24, 256, "full")],
}
NOT_SCALED = {"recommender": "batch", "mamba": "batch"}  # --scale of those whose sequence has no meaning, or is the program
HAS_BLOCKS = set(MODELS) - {"recommender"}
MORE_SHARDING = {"llama1b_4layers", "my_model"}
FSDP8, DDP8 = {"shard": "fsdp2", "world": 8}, {"shard": "ddp", "world": 8}


def family(name):
    def make_model(batch, seq):
        config = transformers.AutoConfig.for_model(**config_of(name))
        config._attn_implementation = "sdpa"
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        ids, labels = (torch.randint(config.vocab_size, (batch, seq)) for _ in range(2))
        return model, {"input_ids": ids, "labels": labels, "use_cache": False}, None
    return make_model


def make_model_of(name):
    if os.path.exists(os.path.join(EXAMPLES, name + ".py")):
        return __import__(name).make_model
    return family(name)


def __getattr__(name):
    """`graph_cases:small_llama` for ac_advisor.capture."""
    if name in MODELS:
        return make_model_of(name)
    raise AttributeError(name)


def all_cases():
    for name, (batch, seq) in MODELS.items():
        modes = [("none", {}), ("none", {"grad_accum": 2}), ("none", {"optimizer": "adamw-foreach"}),
                 ("none", {"hold_output": False})]
        modes += [("none", shard | more) for shard in (FSDP8, DDP8) for more in ({}, {"grad_accum": 2})]
        if name in HAS_BLOCKS:
            modes += [("full", {}), ("full", {"grad_accum": 2}), ("every:2", {})]
            modes += [("full", FSDP8), ("full", FSDP8 | {"grad_accum": 2}), ("every:2", FSDP8), ("full", DDP8),
                      ("selective", {}), ("selective", FSDP8)]
        if name in MORE_SHARDING:
            for ac in ("none", "full"):
                modes += [(ac, {"shard": "fsdp2", "world": 3}), (ac, {"shard": "hsdp:4", "world": 8}),
                          (ac, FSDP8 | {"keep_last_block": True}),
                          (ac, FSDP8 | {"grad_accum": 3, "no_sync": True}),
                          (ac, DDP8 | {"grad_accum": 3, "no_sync": True}),
                          (ac, FSDP8 | {"optimizer": "adamw-foreach"})]
        for ac, rest in modes:
            yield {"model": name, "batch": batch, "seq": seq, "ac": ac} | rest
    for name, cases in SCALED.items():
        for batch, seq, ac in cases:
            yield {"model": name, "batch": batch, "seq": seq, "ac": ac, "scaled": NOT_SCALED.get(name, "batch,seq")}
