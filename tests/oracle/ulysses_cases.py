"""The cases of ulysses_peaks.json: models of emulated_cases.py, and the planner's options."""

import sys

from cp_cases import MIXED, UNITS
from emulated_cases import EXPANDABLE, case, label


def make(model, cp, ac="none", batch=2, seq=4096, **more):
    return case(model, batch, seq, ac, world=more.pop("world", cp), cp=cp, cp_method="ulysses",
                shard=more.pop("shard", "fsdp2"), **more)


def every_mode(model):
    for ac in ("none", "full", "selective"):
        for cp in (2, 4, 8):
            yield make(model, cp, ac)
        yield make(model, 4, ac, attn="flash")
    yield make(model, 4, "every:2")
    yield make(model, 4, "grouped:2")
    yield make(model, 2, "full", 1)
    yield make(model, 2, "full", 1, attn="flash")


def shared_heads():
    """Fewer heads of keys and values: some a rank, one, or one that ranks have alike."""
    for ac in ("none", "full", "selective"):
        yield make("llama1b_4layers", 4, ac)
        yield make("llama1b_4layers", 8, ac, 1)
    for ac in ("none", "full"):
        yield make("llama1b_4layers", 16, ac, 1, 8192)
        yield make("llama1b_4layers", 16, ac, attn="flash")
        yield make("qwen2_05b_4layers", 2, ac)
        yield make("qwen3_06b_4layers", 8, ac)
        yield make("mistral7b_4layers", 8, ac, 1, 32768)
        yield make("mistral7b_4layers", 4, ac, 1, 32768, attn="flash")


def one_head():
    """A rank with one head of queries: what has one need not be copied to have it first."""
    for batch in (1, 2):
        for ac in ("none", "full"):
            yield make("small_llama", 8, ac, batch, 8192)
            yield make("small_llama", 8, ac, batch, 8192, attn="flash")


def the_rest(model):
    for ac in ("none", "full"):
        yield make(model, 2, ac, 3, 1000)
        yield make(model, 4, ac, 3, 1000)
        yield make(model, 4, ac, grad_accum=2)
        yield make(model, 4, ac, **MIXED)
        yield make(model, 2, ac, world=8, **MIXED, **UNITS)
    yield make(model, 4, "none", hold_output=False)
    yield make(model, 4, "none", **EXPANDABLE)
    yield make("llama1b_4layers", 2, "full", world=8, shard="hsdp:4")
    yield make("llama8b", 8, "full", 1, 65536, world=64, **MIXED, **UNITS)


def all_cases():
    seen = set()
    for cases in (every_mode("smollm17b_untied_4layers"), shared_heads(), one_head(),
                  the_rest("smollm17b_untied_4layers")):
        for entry in cases:
            if label(entry) not in seen:
                seen.add(label(entry))
                yield entry


if __name__ == "__main__":
    for world in sorted({entry["world"] for entry in all_cases()}):
        print(world)
    print(len(list(all_cases())), "cases", file=sys.stderr)
