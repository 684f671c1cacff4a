"""The cases of cp_peaks.json: models of emulated_cases.py, and the planner's options; a case is one rank's step."""

import sys

from emulated_cases import EXPANDABLE, case, label

MIXED = {"param_dtype": "fp32", "compute_dtype": "bf16", "reduce_dtype": "fp32"}
UNITS = {"fsdp_unit": "torchtitan"}


def make(model, cp, rank, ac="none", batch=2, seq=4096, **more):
    return case(model, batch, seq, ac, world=more.pop("world", cp), cp=cp, cp_rank=rank,
                shard=more.pop("shard", "fsdp2"), **more)


def every_mode(model):
    for ac in ("none", "full", "selective"):
        for cp, ranks in ((2, (0, 1)), (4, (0, 2, 3)), (8, (6,))):
            for rank in ranks:
                yield make(model, cp, rank, ac)
        yield make(model, 2, 0, ac, attn="flash")
        yield make(model, 4, 2, ac, attn="flash")
        yield make(model, 4, 2, ac, cp_method="alltoall")
        yield make(model, 2, 0, ac, world=8)
    for ac in ("every:2", "grouped:2"):
        yield make(model, 4, 2, ac)


def long_sequences(model):
    """What the ring holds is then the peak, or near it."""
    for ac in ("none", "full", "selective"):
        for cp, rank in ((2, 1), (4, 2), (8, 0), (8, 6), (8, 7)):
            yield make(model, cp, rank, ac, 1, 32768)
        yield make(model, 8, 6, ac, 1, 32768, attn="flash")
        yield make(model, 8, 6, ac, 1, 32768, cp_method="alltoall")


def the_rest(model):
    for ac in ("none", "full"):
        yield make(model, 2, 0, ac, 3, 1000)
        yield make(model, 4, 2, ac, 3, 1000)
        yield make(model, 4, 2, ac, grad_accum=2)
        yield make(model, 4, 2, ac, **MIXED)
        yield make(model, 2, 0, ac, world=8, **MIXED, **UNITS)
        yield make(model, 4, 2, ac, hold_output=False)
        yield make(model, 4, 2, ac, **EXPANDABLE)


def families():
    for model in ("llama1b_4layers", "qwen2_05b_4layers", "qwen3_06b_4layers", "mistral7b_4layers"):
        for ac in ("none", "full", "selective"):
            yield make(model, 4, 2, ac)


def whole_models():
    for ac in ("full", "selective"):
        yield make("llama8b", 8, 6, ac, 1, 65536, world=64, **MIXED, **UNITS)


def split_layers():
    """--tp beside it: heads are split, too."""
    for model in ("smollm17b_untied_4layers", "llama1b_4layers", "qwen3_06b_4layers", "mistral7b_4layers"):
        for ac in ("none", "full", "selective"):
            yield make(model, 2, 1, ac, world=4, tp=2)
        yield make(model, 4, 2, "none", 1, 32768, world=8, tp=2)
    for ac in ("none", "full", "selective"):
        yield make("smollm17b_untied_4layers", 2, 0, ac, world=8, tp=4, attn="flash")
        yield make("smollm17b_untied_4layers", 2, 0, ac, world=8, tp=2, **MIXED, **UNITS, clip_grad=1.0)
        yield make("mistral7b_4layers", 4, 2, ac, 1, world=8, tp=2, **MIXED, **UNITS, clip_grad=1.0)
    for ac in ("none", "full"):
        yield make("smollm17b_untied_4layers", 2, 1, ac, world=4, tp=2, loss_parallel=False)
        yield make("smollm17b_untied_4layers", 4, 2, ac, world=8, tp=2, cp_method="alltoall", hold_output=False)
        yield make("llama1b_4layers", 2, 0, ac, world=8, tp=2, grad_accum=2)
        yield make("llama1b_4layers", 2, 0, ac, world=16, tp=2, shard="hsdp:4", **MIXED, clip_grad=1.0)
    yield make("llama8b", 8, 6, "selective", 1, 65536, world=64, tp=8, **MIXED, **UNITS, clip_grad=1.0)


def replicas():
    """HSDP: groups of shards, which ranks of one sequence share, beside replicas."""
    for ac in ("none", "full", "selective"):
        yield make("llama1b_4layers", 2, 1, ac, world=8, shard="hsdp:4")
        yield make("smollm17b_untied_4layers", 2, 0, ac, world=8, shard="hsdp:2", **MIXED, **UNITS)


def all_cases():
    seen = set()
    for cases in (every_mode("smollm17b_untied_4layers"), long_sequences("smollm17b_untied_4layers"),
                  long_sequences("mistral7b_4layers"), the_rest("smollm17b_untied_4layers"), families(),
                  whole_models(), replicas()):
        for entry in cases:
            if label(entry) not in seen:
                seen.add(label(entry))
                yield entry


def rank_of(entry):
    """Of all ranks, the first that has this part of a sequence and the first part of a layer."""
    return entry["cp_rank"] * entry.get("tp", 1)


if __name__ == "__main__":
    entries = split_layers() if sys.argv[1:] == ["--tp"] else all_cases()
    for world, rank in sorted({(entry["world"], rank_of(entry)) for entry in entries}):
        print(world, rank)
