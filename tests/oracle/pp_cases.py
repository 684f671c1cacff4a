"""The cases of pp_peaks.json: models of emulated_cases.py, and the planner's options; a case is one rank's step."""

from emulated_cases import EXPANDABLE, case, label

NONE, FULL, SELECTIVE = "none", "full", "selective"
MIXED = {"param_dtype": "fp32", "compute_dtype": "bf16", "reduce_dtype": "fp32"}
WIDE_SUMS = {"reduce_dtype": "fp32"}
UNITS = {"fsdp_unit": "torchtitan"}
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


def sharded():
    """FSDP2 over the ranks of a stage."""
    four, eight = {"world": 4, "shard": "fsdp2"}, {"world": 16, "shard": "fsdp2"}
    for ac in (NONE, FULL, SELECTIVE):
        for more in ({}, UNITS, MIXED, MIXED | UNITS, WIDE_SUMS):
            yield from every_rank("smollm17b_untied_4layers", 2, "1f1b", 4, ac, **four, **more)
        yield from every_rank("smollm17b_untied_4layers", 2, "gpipe", 4, ac, **four, **MIXED, **UNITS)
        yield from every_rank("mistral7b_4layers", 2, "1f1b", 2, ac, **four, **MIXED, **UNITS)
        yield from every_rank("smollm17b_untied_8layers", 4, "1f1b", 8, ac, **eight, **MIXED, **UNITS)
        yield from every_rank("smollm17b_untied_8layers", 2, "interleaved:2", 4, ac, **four, **MIXED, **UNITS)
    yield from every_rank("smollm17b_untied_14layers", 4, "interleaved:2", 8, **eight, **UNITS)
    yield from every_rank("smollm17b_untied_8layers", 2, "interleaved:2", 4, **four)
    yield from every_rank("smollm17b_untied_8layers", 2, "interleaved:3", 4, FULL, **four, **MIXED)
    for schedule, accum in (("1f1b", 24), ("gpipe", 40), ("interleaved:2", 24)):
        yield from every_rank("smollm17b_untied_8layers", 2, schedule, accum, FULL, seq=1024, **four, **MIXED, **UNITS)
    hsdp = {"world": 8, "shard": "hsdp:2"}
    for more in ({}, MIXED | UNITS):
        yield from every_rank("smollm17b_untied_4layers", 2, "1f1b", 4, **hsdp, **more)
    yield from every_rank("smollm17b_untied_4layers", 2, "1f1b", 4, batch=3, seq=1000, **four, **MIXED)
    yield from every_rank("smollm17b_untied_4layers", 2, "1f1b", 4, "every:2", **four, **UNITS)
    yield from every_rank("smollm17b_untied_4layers", 2, "1f1b", 4, **four, **UNITS, **EXPANDABLE)
    yield from every_rank("smollm17b_untied_4layers", 2, "1f1b", 4, FULL, **four, **MIXED, **EXPANDABLE)
    yield from every_rank("smollm17b_untied_4layers", 2, "1f1b", 4, **four, **FP32)


def layers_in_parts():
    """Tensor parallelism within stages, alone and with FSDP2."""
    for ac in (NONE, FULL, SELECTIVE):
        for model in ("smollm17b_untied_4layers", "mistral7b_4layers"):
            for world, tp, more in ((4, 2, {}), (8, 4, {}), (8, 2, {"shard": "fsdp2"} | UNITS | MIXED),
                                    (16, 4, {"shard": "fsdp2"} | MIXED)):
                yield from every_rank(model, 2, "1f1b", 4, ac, world=world, tp=tp, **more)
        yield from every_rank("smollm17b_untied_8layers", 2, "interleaved:2", 4, ac, world=8, tp=2, shard="fsdp2",
                              **MIXED, **UNITS)
    yield from every_rank("smollm17b_untied_4layers", 2, "1f1b", 4, world=4, tp=2, batch=2)
    yield from every_rank("smollm17b_untied_4layers", 2, "gpipe", 4, FULL, world=8, tp=2, shard="fsdp2")
    yield from every_rank("smollm17b_untied_4layers", 2, "1f1b", 4, FULL, world=8, tp=2, shard="fsdp2", **WIDE_SUMS)
    yield from every_rank("llama8b", 8, "1f1b", 16, FULL, world=512, tp=8, shard="fsdp2", seq=8192, **MIXED, **UNITS)
    yield from every_rank("llama8b", 4, "interleaved:2", 8, SELECTIVE, world=64, tp=4, shard="fsdp2", seq=8192, **MIXED,
                          **UNITS)


def tied():
    """The first and the last stage have a copy each of the embedding, whose gradients are added."""
    for ac in (NONE, FULL):
        yield from every_rank("llama1b_4layers", 2, "1f1b", 4, ac)
        yield from every_rank("qwen2_05b_4layers", 2, "1f1b", 4, ac, world=4, shard="fsdp2", **MIXED)
        yield from every_rank("llama1b_4layers", 2, "1f1b", 4, ac, world=4, tp=2)
        yield from every_rank("llama1b_4layers", 2, "1f1b", 4, ac, world=8, tp=2, shard="fsdp2", **MIXED)
    yield from every_rank("llama1b", 4, "interleaved:2", 8, FULL, world=8, shard="fsdp2", **MIXED)
    yield from every_rank("llama1b_4layers", 2, "gpipe", 4)


def clipped():
    """TorchTitan's clip_grad_norm_: the norm of all stages' gradients."""
    clip = {"clip_grad": 1.0}
    four, parts = {"world": 4, "shard": "fsdp2"}, {"world": 8, "tp": 2, "shard": "fsdp2"}
    small, eight = "smollm17b_untied_4layers", "smollm17b_untied_8layers"
    yield from every_rank(small, 2, "1f1b", 4, **clip)
    yield from every_rank(eight, 4, "gpipe", 4, FULL, **clip)
    yield from every_rank(eight, 2, "interleaved:2", 4, FULL, **clip, optimizer="adamw-foreach")
    yield from every_rank(small, 2, "1f1b", 2, FULL, **clip, **FP32, optimizer="sgd")
    yield from every_rank("mistral7b_4layers", 2, "1f1b", 4, SELECTIVE, **clip, **four, **MIXED, **UNITS)
    yield from every_rank(small, 2, "gpipe", 4, **clip, **four, optimizer="sgd")
    yield from every_rank(eight, 2, "interleaved:2", 4, FULL, **clip, **four, **MIXED, **UNITS)
    yield from every_rank(eight, 4, "1f1b", 8, **clip, world=16, shard="fsdp2", **UNITS)
    yield from every_rank(small, 2, "1f1b", 4, FULL, **clip, world=8, shard="hsdp:2", **MIXED, **UNITS)
    yield from every_rank("qwen2_05b_4layers", 2, "1f1b", 4, **clip, **four, **MIXED)
    yield from every_rank(small, 2, "1f1b", 4, **clip, world=4, tp=2)
    yield from every_rank("mistral7b_4layers", 2, "1f1b", 4, FULL, **clip, world=8, tp=4)
    yield from every_rank(small, 2, "1f1b", 4, FULL, **clip, **parts)
    yield from every_rank("mistral7b_4layers", 2, "1f1b", 4, SELECTIVE, **clip, **parts, **MIXED, **UNITS)
    yield from every_rank(eight, 2, "interleaved:2", 4, FULL, **clip, **parts, **MIXED, **UNITS)
    yield from every_rank("llama8b", 8, "1f1b", 16, FULL, world=512, tp=8, shard="fsdp2", seq=8192, **clip, **MIXED,
                          **UNITS)


def parts_beside():
    """Layers in parts beside replicas and other optimizers, with clipping and without."""
    clip = {"clip_grad": 1.0}
    small, hsdp = "smollm17b_untied_4layers", {"world": 16, "tp": 2, "shard": "hsdp:2"}
    yield from every_rank(small, 2, "1f1b", 4, FULL, **hsdp)
    yield from every_rank("mistral7b_4layers", 2, "1f1b", 4, SELECTIVE, **hsdp, **MIXED, **UNITS, **clip)
    yield from every_rank("smollm17b_untied_8layers", 2, "interleaved:2", 4, FULL, **hsdp, **MIXED, **UNITS, **clip)
    for optimizer in ("adamw-foreach", "sgd"):
        yield from every_rank(small, 2, "1f1b", 4, world=4, tp=2, optimizer=optimizer)
        yield from every_rank(small, 2, "gpipe", 4, FULL, world=4, tp=2, optimizer=optimizer, **clip)
        yield from every_rank("mistral7b_4layers", 2, "1f1b", 4, FULL, world=8, tp=2, shard="fsdp2", **MIXED, **UNITS,
                              optimizer=optimizer, **clip)


def rings():
    """Ranks of a stage that share sequences, by FSDP2."""

    def ranks(model, pp, cp_rank, *args, cp=2, seq=4096, shard="fsdp2", **more):
        more = {"world": pp * cp * more.get("tp", 1)} | more
        yield from every_rank(model, pp, *args, cp=cp, cp_rank=cp_rank, seq=seq, shard=shard, **more)

    small, eight = "smollm17b_untied_4layers", "smollm17b_untied_8layers"
    for ac in (NONE, FULL, SELECTIVE):
        yield from ranks(small, 2, 0, "1f1b", 4, ac)
        yield from ranks("mistral7b_4layers", 2, 1, "1f1b", 4, ac, **MIXED, **UNITS, clip_grad=1.0)
    yield from ranks(small, 2, 2, "gpipe", 4, FULL, cp=4, **UNITS)
    yield from ranks(eight, 2, 0, "interleaved:2", 4, FULL, world=8, **MIXED, **UNITS, clip_grad=1.0)
    yield from ranks(eight, 4, 1, "1f1b", 8, SELECTIVE, **MIXED)
    yield from ranks(small, 2, 2, "1f1b", 2, NONE, cp=4, cp_method="alltoall", batch=2)
    yield from ranks("qwen2_05b_4layers", 2, 0, "1f1b", 4, FULL, **MIXED, attn="flash")
    yield from ranks("llama8b", 4, 2, "1f1b", 8, FULL, cp=4, world=64, seq=32768, **MIXED, **UNITS, clip_grad=1.0)


def zero_bubble():
    """Backwards that are split into the input's gradient and the weights'."""
    four, eight = {"world": 4, "shard": "fsdp2"}, {"world": 8, "shard": "fsdp2"}
    yield from every_rank("smollm17b_untied_4layers", 2, "zb1", 4)
    yield from every_rank("smollm17b_untied_8layers", 2, "zbv", 4)
    yield from every_rank("smollm17b_untied_8layers", 2, "dualpipev", 4)
    yield from every_rank("smollm17b_untied_8layers", 4, "zb1", 8)
    yield from every_rank("smollm17b_untied_14layers", 4, "zbv", 8)
    yield from every_rank("smollm17b_untied_14layers", 4, "dualpipev", 8)
    yield from every_rank("smollm17b_untied_14layers", 8, "zb1", 16)
    yield from every_rank("qwen2_05b_4layers", 2, "zb1", 4)
    yield from every_rank("mistral7b_4layers", 2, "zb1", 2)
    yield from every_rank("smollm17b_untied_8layers", 2, "zb1:2", 4)
    for schedule in ("zb1", "zbv", "dualpipev"):
        layers = "4layers" if schedule == "zb1" else "8layers"
        for more in ({}, MIXED | UNITS):
            yield from every_rank(f"smollm17b_untied_{layers}", 2, schedule, 4, **four, **more)
    yield from every_rank("smollm17b_untied_8layers", 4, "zb1", 8, **eight, **MIXED, **UNITS)
    yield from every_rank("smollm17b_untied_4layers", 2, "zb1", 4, **FP32)
    yield from every_rank("smollm17b_untied_4layers", 2, "zb1", 24, seq=1024)
    yield from every_rank("smollm17b_untied_8layers", 2, "zbv", 24, seq=1024)
    for schedule, layers in (("zb1", 4), ("zbv", 8), ("dualpipev", 8)):
        model = f"smollm17b_untied_{layers}layers"
        yield from every_rank(model, 2, schedule, 4, clip_grad=1.0, **four, **MIXED, **UNITS)
        yield from every_rank(model, 2, schedule, 4, world=8, shard="hsdp:2", **MIXED, **UNITS)
    yield from every_rank("smollm17b_untied_4layers", 2, "zb1", 4, clip_grad=1.0)
    yield from every_rank("qwen3_06b_4layers", 2, "zb1", 4)
    yield from every_rank("gemma3_1b_6layers", 2, "zb1", 4, batch=2, seq=1024)
    yield from every_rank("llama8b", 4, "zbv", 8, world=32, shard="fsdp2", seq=4096, **MIXED, **UNITS)


def all_cases():
    seen = set()
    for cases in (one_f_one_b(), gpipe(), interleaved(), many_micro_batches(), sharded(), layers_in_parts(), tied(),
                  clipped(), parts_beside(), rings(), zero_bubble()):
        for entry in cases:
            if label(entry) not in seen:
                seen.add(label(entry))
                yield entry


def rank_of(entry):
    """The first of the ranks that see different data; a stage's ranks are neighbours, in it those of a sequence."""
    return entry["pp_rank"] * (entry["world"] // entry["pp"]) + entry.get("cp_rank", 0) * entry.get("tp", 1)


if __name__ == "__main__":
    for world, rank in sorted({(entry["world"], rank_of(entry)) for entry in all_cases()}):
        print(world, rank)
