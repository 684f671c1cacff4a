"""The cases of emulated_peaks.py: models, and the planner's options that a step of them is run with."""

import functools

from generate_peaks import REAL, TINY, TINY_FAMILIES, UNTIED, sizes, whole_config

LAYERS = {"llama1b": 4, "smollm17b_untied": 4, "qwen2_05b": 4, "qwen3_06b": 4, "gemma3_1b": 6, "mistral7b_8layers": 4,
          "gemma2_2b_8layers": 4, "phi3_mini_8layers": 4, "smollm3_3b_8layers": 4}


def cut(name, values):
    """A few layers tell what many would, where the blocks are alike; whole models have cases of their own."""
    layers = LAYERS.get(name, values["num_hidden_layers"])
    return name.split("_8layers")[0].split("_4layers")[0].split("_2layers")[0] + f"_{layers}layers", values | {
        "num_hidden_layers": layers}


FAMILIES = dict(cut(name, values) for name, values in REAL.items())
WHOLE = {
    "mistral7b": sizes(4096, 14336, 32, 32, 8, 128, 32768, False, model_type="mistral", sliding_window=None),
    "llama8b": sizes(4096, 14336, 32, 32, 8, 128, 128256, False, model_type="llama"),
    "llama1b": REAL["llama1b"], "qwen3_06b": REAL["qwen3_06b"], "gemma3_1b": REAL["gemma3_1b"],
    # Between a tiny model and a real one: the allocator's 1, 10 and 20 MiB all matter here.
    "small_llama": TINY | {"model_type": "llama", "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8,
                           "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 8192},
    "small_mixtral": TINY | UNTIED | {"model_type": "mixtral", "hidden_size": 512, "intermediate_size": 1024,
                                      "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4,
                                      "head_dim": 64, "vocab_size": 8192, "num_local_experts": 8,
                                      "num_experts_per_tok": 2, "sliding_window": None},
}
VALUES = {"tiny_" + name: {"model_type": name} | values for name, values in TINY_FAMILIES.items()} | FAMILIES | WHOLE
EXPANDABLE = {"alloc_conf": "expandable_segments:True"}
FSDP8 = {"shard": "fsdp2", "world": 8}
NO_SEGMENTS = ("gemma", "olmo3")  # what transformers gives a block depends on its number
OWN_LOGITS = ("gemma2", "granite")  # the chunked loss here has neither a softcap nor a divisor


@functools.cache
def config_of(model):
    """What transformers would write to config.json."""
    return whole_config(VALUES[model]["model_type"], VALUES[model])


def case(model, batch, seq, ac="none", loss="ce", **more):
    return {"model": model, "batch": batch, "seq": seq, "ac": ac, "loss": loss} | more


def fits_family(entry):
    family = VALUES[entry["model"]]["model_type"]
    segments = entry["ac"].startswith("grouped") and family.startswith(NO_SEGMENTS)
    eager_only = family == "gemma2" and entry.get("attn") == "flash"
    return not (segments or eager_only or entry["loss"].startswith("chunked") and family in OWN_LOGITS)


def every_family():
    for model in FAMILIES:
        for ac in ("none", "full", "selective", "grouped:2", "every:2"):
            yield case(model, 2, 2048, ac)
        for ac in ("none", "full"):
            yield case(model, 3, 1000, ac)
            yield case(model, 2, 2048, ac, "chunked:1024")
            yield case(model, 2, 2048, ac, **EXPANDABLE)
            yield case(model, 2, 2048, ac, **FSDP8)
        yield case(model, 2, 2048, attn="flash")
        yield case(model, 2, 2048, "full", **FSDP8, **EXPANDABLE)
    for model in VALUES:
        if not model.startswith("tiny_"):
            continue
        for ac in ("none", "full", "selective"):
            yield case(model, 2, 32, ac)
        yield case(model, 3, 1000)
        yield case(model, 2, 512, "full", **EXPANDABLE)
        yield case(model, 2, 512, "full", "chunked:256", **FSDP8)


def small_models():
    for model in ("small_llama", "small_mixtral"):
        for ac in ("none", "full", "grouped:2", "every:2", "selective"):
            for more in ({}, EXPANDABLE, FSDP8, FSDP8 | EXPANDABLE):
                yield case(model, 4, 1024, ac, **more)


def every_mode(model, batch, seq):
    def make(ac="none", loss="ce", batch=batch, seq=seq, **more):
        return case(model, batch, seq, ac, loss, **more)

    for ac in ("none", "full"):
        for size in ((1, 512), (1, 4096), (8, 2048), (5, 777)):
            yield make(ac, batch=size[0], seq=size[1])
        for shard in ({"shard": "ddp", "world": 8}, {"shard": "hsdp:4", "world": 8}, FSDP8 | {"keep_last_block": True},
                      {"shard": "fsdp2", "world": 64}, {"shard": "fsdp2", "world": 3}):
            yield make(ac, **shard)
            yield make(ac, batch=3, seq=1000, **shard)
        for loss in ("ce", "chunked:1024"):
            yield make(ac, loss, hold_output=loss == "chunked:1024")
            yield make(ac, loss, **FSDP8, batch=3, seq=1000)
            yield make(ac, loss, grad_accum=2)
            yield make(ac, loss, grad_accum=2, **FSDP8)
            yield make(ac, loss, grad_accum=2, no_sync=True, **FSDP8)
            yield make(ac, loss, grad_accum=2, no_sync=True, shard="ddp", world=8)
            yield make(ac, loss, param_dtype="fp32", compute_dtype="bf16", reduce_dtype="fp32", **FSDP8)
        yield make(ac, attn="eager", seq=512)
        yield make(ac, attn="flash")
        yield make(ac, attn="flash", batch=3, seq=1000)
        for optimizer in ("adamw-foreach", "sgd"):
            yield make(ac, optimizer=optimizer)
            yield make(ac, optimizer=optimizer, **FSDP8)
    for ac in ("grouped:3", "grouped:4", "every:3", "selective"):
        yield make(ac, **FSDP8)
        yield make(ac, **EXPANDABLE)


def whole_models():
    for ac in ("none", "full"):
        yield case("llama1b", 8, 2048, ac)
        yield case("llama1b", 8, 2048, ac, **FSDP8)
        yield case("llama1b", 3, 1000, ac)
        for more in ({}, EXPANDABLE):
            yield case("qwen3_06b", 4, 2048, ac, **more)
    yield case("gemma3_1b", 2, 2048)
    for model, batch, seq in (("mistral7b", 1, 4096), ("llama8b", 1, 8192)):
        for ac in ("full", "selective"):
            for more in ({}, EXPANDABLE):
                yield case(model, batch, seq, ac, **FSDP8, **more)
    yield case("mistral7b", 2, 2048, "full", **FSDP8, keep_last_block=True)
    yield case("llama8b", 1, 8192, "full", **FSDP8, param_dtype="fp32", compute_dtype="bf16", reduce_dtype="fp32")


def all_cases():
    seen = set()
    for cases in (every_family(), small_models(), every_mode("llama1b_4layers", 2, 2048),
                  whole_models()):
        for entry in cases:
            if fits_family(entry) and label(entry) not in seen:
                seen.add(label(entry))
                yield entry


def label(entry):
    return " ".join(f"{key}={value}" for key, value in entry.items())
