"""The cases of ep_peaks.json: mixtures of emulated_cases.py, and the planner's options."""

from emulated_cases import EXPANDABLE, case, label

MIXED = {"param_dtype": "fp32", "compute_dtype": "bf16", "reduce_dtype": "fp32"}
UNITS = {"fsdp_unit": "torchtitan"}
LARGE = ("qwen3_30b_a3b_4layers", "olmoe_1b_7b_4layers", "qwen15_moe_27b_4layers", "mixtral8x7b_2layers")


def make(model, world, ep, ac="none", batch=2, seq=2048, **more):
    return case(model, batch, seq, ac, world=world, ep=ep, shard=more.pop("shard", "fsdp2"), **more)


def every_mode(model):
    for ac in ("none", "full", "selective"):
        yield make(model, 8, 2, ac)
        yield make(model, 8, 4, ac, **MIXED, **UNITS)
        yield make(model, 8, 8, ac, **MIXED)
    for ac in ("grouped:2", "every:2"):
        yield make(model, 8, 4, ac)
    for ac in ("none", "full"):
        yield make(model, 8, 4, ac, grad_accum=2)
        yield make(model, 8, 2, ac, grad_accum=2, no_sync=True, **MIXED)
        yield make(model, 8, 8, ac, grad_accum=2, no_sync=True)
    yield make(model, 4, 2, "full", hold_output=False)
    yield make(model, 8, 4, "full", **EXPANDABLE)
    yield make(model, 8, 4, "none", attn="flash")


def families():
    for model in LARGE[1:]:
        seq = 1920 if model.startswith("qwen15") else 2048  # its 60 experts have as many tokens each
        yield make(model, 8, 4, "full", 1, seq, **UNITS)
        yield make(model, 8, 4, "none", 1, seq, **MIXED)
        yield make(model, 8, 2, "selective", 1, seq)
        yield make(model, 4, 4, "full", 1, seq // 2)
    for model in LARGE[1:2] + LARGE[3:]:
        yield make(model, 8, 8, "none", 1, **MIXED)
    for model in ("tiny_mixtral", "tiny_qwen3_moe", "tiny_olmoe", "tiny_qwen2_moe"):
        yield make(model, 8, 4, "none", 2, 512)
        yield make(model, 4, 4, "full", 2, 512)
    yield make("small_mixtral", 8, 4, "full", 4, 1024, **UNITS)
    yield make("small_mixtral", 8, 8, "none", 4, 1024)


def the_rest(model):
    yield make(model, 8, 2, "full", shard="hsdp:4")
    yield make(model, 8, 4, "full", shard="hsdp:4", **MIXED)
    yield make(model, 16, 4, "selective", shard="hsdp:8", **MIXED, **UNITS)
    yield make(model, 8, 4, "full", keep_last_block=True)
    yield make(model, 64, 8, "full", 1, 4096, **MIXED, **UNITS)
    for optimizer in ("adamw-foreach", "sgd"):
        yield make(model, 8, 4, "full", optimizer=optimizer)


def all_cases():
    seen = set()
    for cases in (every_mode(LARGE[0]), families(), the_rest(LARGE[0])):
        for entry in cases:
            if label(entry) not in seen:
                seen.add(label(entry))
                yield entry
