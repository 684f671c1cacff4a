"""The cases of pp_peaks.json: models of emulated_cases.py, and the planner's options; a case is one rank's step."""

from emulated_cases import EXPANDABLE, case, label

NONE, FULL, SELECTIVE = "none", "full", "selective"
FP32 = {"param_dtype": "fp32", "compute_dtype": "fp32", "reduce_dtype": "fp32"}


def make(model, pp, rank, schedule="1f1b", accum=None, ac=NONE, batch=1, seq=2048, **more):
    return case(model, batch, seq, ac, world=more.pop("world", pp), pp=pp, pp_rank=rank, pp_schedule=schedule,
                grad_accum=accum or pp, hold_output=more.pop("hold_output", False), **more)


def every_rank(model, pp, *args, **more):
    for rank in sorted({0, pp // 2, pp - 1}):
        yield make(model, pp, rank, *args, **more)


def one_f_one_b():
    for ac in (NONE, FULL, SELECTIVE):
        for accum in (2, 4, 8):
            yield from every_rank("smollm17b_untied_4layers", 2, "1f1b", accum, ac)
        yield from every_rank("mistral7b_4layers", 2, "1f1b", 4, ac)
        yield from every_rank("smollm17b_untied_8layers", 4, "1f1b", 8, ac)
    yield from every_rank("smollm17b_untied_8layers", 4, "1f1b", 4, FULL, batch=2)
    yield from every_rank("smollm17b_untied_14layers", 8, "1f1b", 16)
    yield from every_rank("smollm17b_untied_14layers", 8, "1f1b", 8, FULL)
    yield from every_rank("smollm17b_untied_8layers", 2, "1f1b", 4, "every:2")
    yield from every_rank("smollm17b_untied_8layers", 2, "1f1b", 4, "grouped:2")
    yield from every_rank("smollm17b_untied_8layers", 2, "1f1b", 4, pp_layers="5,3")
    yield from every_rank("smollm17b_untied_4layers", 2, "1f1b", 4, batch=3, seq=1000)
    yield from every_rank("smollm17b_untied_4layers", 2, "1f1b", 4, optimizer="adamw-foreach")
    yield from every_rank("smollm17b_untied_4layers", 2, "1f1b", 4, **EXPANDABLE)
    yield from every_rank("smollm17b_untied_4layers", 2, "1f1b", 4, attn="flash")


def gpipe():
    for ac in (NONE, FULL, SELECTIVE):
        yield from every_rank("smollm17b_untied_4layers", 2, "gpipe", 4, ac)
        yield from every_rank("smollm17b_untied_8layers", 4, "gpipe", 8, ac)
    yield from every_rank("mistral7b_4layers", 2, "gpipe", 4)


def interleaved():
    for ac in (NONE, FULL, SELECTIVE):
        yield from every_rank("smollm17b_untied_8layers", 2, "interleaved:2", 4, ac)
        yield from every_rank("smollm17b_untied_14layers", 4, "interleaved:2", 8, ac)
    yield from every_rank("smollm17b_untied_8layers", 2, "interleaved:3", 4)
    yield from every_rank("smollm17b_untied_8layers", 2, "interleaved:2", 8)


def many_micro_batches():
    """More than a plan writes out."""
    for schedule, accum in (("1f1b", 24), ("gpipe", 24), ("gpipe", 40), ("interleaved:2", 24)):
        for ac in (NONE, FULL):
            yield from every_rank("smollm17b_untied_8layers", 2, schedule, accum, ac, seq=1024)
    yield from every_rank("smollm17b_untied_4layers", 2, "1f1b", 4, **FP32)
    yield from every_rank("smollm17b_untied_8layers", 2, "interleaved:2", 4, FULL, **FP32)
    yield from every_rank("mistral7b_4layers", 2, "interleaved:2", 4, FULL, batch=2)
    yield from every_rank("smollm17b_untied_4layers", 2, "1f1b", 4, optimizer="sgd")


def all_cases():
    seen = set()
    for cases in (one_f_one_b(), gpipe(), interleaved(), many_micro_batches()):
        for entry in cases:
            if label(entry) not in seen:
                seen.add(label(entry))
                yield entry


def rank_of(entry):
    """The first of the ranks that see different data; a stage's ranks are neighbours."""
    return entry["pp_rank"] * (entry["world"] // entry["pp"])


if __name__ == "__main__":
    for world, rank in sorted({(entry["world"], rank_of(entry)) for entry in all_cases()}):
        print(world, rank)
