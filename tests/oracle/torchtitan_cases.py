"""The cases of torchtitan_peaks.py: models of emulated_cases.py, and the planner's options."""

import random

from emulated_cases import VALUES, label, sizes



def experts_of(count, chosen, width, values):
    """A qwen3_moe whose blocks all have experts, which is what TorchTitan's have."""
    return values | {"model_type": "qwen3_moe", "num_experts": count, "num_experts_per_tok": chosen,
                     "moe_intermediate_size": width, "norm_topk_prob": True, "decoder_sparse_step": 1,
                     "mlp_only_layers": []}


# Untied, with layers that TorchTitan's llama3 and qwen3 have.
VALUES |= {
    "llama31_8b_4layers": sizes(4096, 14336, 4, 32, 8, 128, 128256, False, model_type="llama",
                                max_position_embeddings=131072),
    "llama31_8b": sizes(4096, 14336, 32, 32, 8, 128, 128256, False, model_type="llama", max_position_embeddings=131072),
    "qwen3_8b_4layers": sizes(4096, 12288, 4, 32, 8, 128, 151936, False, model_type="qwen3"),
    "smollm17b_untied_8layers": VALUES["smollm17b_untied_8layers"],
    "qwen3_06b": VALUES["qwen3_06b"],
    "qwen3_06b_6layers": VALUES["qwen3_06b"] | {"num_hidden_layers": 6},
    "qwen3_17b_5layers": sizes(2048, 6144, 5, 16, 8, 128, 151936, True, model_type="qwen3"),
    "qwen3_4b_4layers": sizes(2560, 9728, 4, 32, 8, 128, 151936, True, model_type="qwen3"),
    "qwen3_moe_30b_2layers": experts_of(128, 8, 768, sizes(2048, 6144, 2, 32, 4, 128, 151936, False)),
    "qwen3_moe_64_experts_3layers": experts_of(64, 8, 512, sizes(1536, 4096, 3, 16, 4, 128, 64000, False)),
    "qwen3_moe_16_experts_4layers": experts_of(16, 4, 768, sizes(1024, 3072, 4, 16, 8, 64, 32000, False)),
    "qwen3_moe_24_experts_3layers": experts_of(24, 3, 640, sizes(1280, 2560, 3, 10, 2, 128, 50304, False)),
    "qwen3_moe_tied_3layers": experts_of(32, 2, 1024, sizes(2048, 4096, 3, 16, 8, 128, 100352, True)),
}
SMALL = "smollm17b_untied_4layers"


def shape(model, batch=1, seq=4096, ac="selective", **more):
    return {"model": model, "framework": "torchtitan", "batch": batch, "seq": seq, "ac": ac} | more


def sharded():
    for model in ("llama31_8b_4layers", "qwen3_8b_4layers", SMALL):
        for ac in ("none", "selective", "full"):
            yield shape(model, ac=ac, world=8)
        yield shape(model, batch=2, seq=2048, ac="none", world=8, grad_accum=2)
        yield shape(model, batch=3, seq=1000, ac="selective", world=3)
    for ac in ("none", "full"):
        yield shape("llama31_8b", ac=ac, world=8)
    yield shape("mistral7b_4layers", ac="every:2", world=8)
    yield shape("llama31_8b_4layers", ac="none", world=8, shard="hsdp:4")
    yield shape("llama31_8b_4layers", ac="none", world=8, attn="flash")


def alone():
    """Under autocast: no FSDP."""
    for model in (SMALL, "qwen3_8b_4layers"):
        for ac in ("none", "selective", "full"):
            yield shape(model, batch=2, seq=2048, ac=ac)
    for ac in ("none", "full"):
        yield shape(SMALL, batch=2, seq=2048, ac=ac, world=8, shard="ddp")


def in_layers():
    for model in ("llama31_8b_4layers", "qwen3_8b_4layers"):
        for ac in ("none", "selective", "full"):
            yield shape(model, ac=ac, world=8, tp=4, batch=2)
        yield shape(model, ac="none", world=8, tp=2, loss_parallel=False)


def in_sequences():
    for model in ("llama31_8b_4layers", "qwen3_8b_4layers"):
        for ac in ("none", "selective"):
            yield shape(model, ac=ac, world=4, cp=4, seq=16384, cp_rank=2)
    yield shape("llama31_8b_4layers", ac="none", world=8, cp=2, batch=2, seq=8192, cp_rank=0)
    yield shape("llama31_8b_4layers", ac="none", world=8, cp=2, tp=2, seq=8192, cp_rank=0)


def in_stages():
    for rank in (0, 1):
        for ac in ("none", "selective"):
            yield shape("smollm17b_untied_8layers", ac=ac, seq=2048, world=4, pp=2, pp_rank=rank, grad_accum=4)
        yield shape("llama31_8b_4layers", ac="none", seq=2048, world=4, pp=2, pp_rank=rank, grad_accum=4)
        yield shape("qwen3_8b_4layers", ac="none", seq=2048, world=4, pp=2, pp_rank=rank, grad_accum=4)
        yield shape("smollm17b_untied_8layers", ac="none", seq=2048, world=4, pp=2, pp_rank=rank, grad_accum=4,
                    pp_schedule="interleaved:2")
        yield shape("smollm17b_untied_8layers", ac="none", seq=2048, world=4, pp=2, pp_rank=rank, grad_accum=4,
                    pp_schedule="zb1:2")
        yield shape("llama31_8b_4layers", ac="none", seq=2048, world=8, pp=2, tp=2, pp_rank=rank, grad_accum=4)


def compiled():
    for ac in ("none", "selective"):
        yield shape("llama31_8b_4layers", ac=ac, world=8, kernels="compiled")


def tied():
    """qwen3 whose head has the embedding's weight, drawn."""
    draw = random.Random("tied qwen3")
    worlds = [{}, {}, {"world": 2}, {"world": 3}, {"world": 8}, {"world": 8}, {"world": 8, "shard": "hsdp:4"},
              {"world": 8, "shard": "ddp"}, {"world": 8, "tp": 2}, {"world": 4, "cp": 2, "cp_rank": 0}]
    for world in worlds * 2:
        model = draw.choice(("qwen3_06b_6layers", "qwen3_17b_5layers", "qwen3_4b_4layers"))
        batch, seq = draw.choice(((1, 4096), (2, 2048), (3, 1000), (4, 1024), (1, 8192)))
        ac = draw.choice(("none", "selective", "full", "every:2"))
        accum = {"grad_accum": draw.choice((2, 3))} if draw.random() < 0.25 else {}
        if "tp" in world or "cp" in world:
            batch, seq, accum = 2, 2048, {}
        yield shape(model, batch=batch, seq=seq, ac=ac, **world, **accum)
    yield shape("qwen3_06b", ac="selective", world=8)


def experts():
    """qwen3's mixture of experts, drawn."""
    draw = random.Random("qwen3's experts")
    worlds = [{"world": 2}, {"world": 3}, {"world": 4}, {"world": 8}, {"world": 8}, {"world": 8, "shard": "hsdp:4"},
              {"world": 4, "cp": 2, "cp_rank": 0}, {"world": 4, "pp": 2, "pp_rank": 0}, {"world": 4, "pp": 2, "pp_rank": 1}]
    models = [name for name in VALUES if name.startswith("qwen3_moe_") and name != "qwen3_moe_30b_2layers"]
    for world in worlds * 4:
        model = draw.choice(models)
        batch, seq = draw.choice(((1, 4096), (2, 2048), (3, 1000), (4, 1024), (1, 8192)))
        ac = draw.choice(("none", "selective", "full", "every:2"))
        accum = {"grad_accum": draw.choice((2, 3))} if draw.random() < 0.25 else {}
        if "cp" in world or "pp" in world:
            batch, seq = 1, draw.choice((2048, 4096))
            accum = {"grad_accum": 4} if "pp" in world else {}
        if "pp" in world and VALUES[model]["tie_word_embeddings"]:
            continue  # which TorchTitan refuses
        yield shape(model, batch=batch, seq=seq, ac=ac, **world, **accum)
    for ac in ("none", "selective", "full"):
        yield shape("qwen3_moe_30b_2layers", ac=ac, world=8)


def shared_experts():
    """The same with experts that ranks share (ExpertParallel), drawn. Loads are balanced: each expert has as many rows."""
    draw = random.Random("TorchTitan's ExpertParallel")
    layouts = [{"world": 2, "ep": 2}, {"world": 4, "ep": 2}, {"world": 4, "ep": 4}, {"world": 8, "ep": 2},
               {"world": 8, "ep": 4}, {"world": 8, "ep": 8}, {"world": 8, "ep": 8}, {"world": 16, "ep": 8},
               {"world": 32, "ep": 8}, {"world": 8, "shard": "hsdp:4", "ep": 2}, {"world": 8, "shard": "hsdp:4", "ep": 4},
               {"world": 8, "cp": 2, "cp_rank": 0, "ep": 4}, {"world": 8, "pp": 2, "pp_rank": 0, "ep": 4},
               {"world": 8, "pp": 2, "pp_rank": 1, "ep": 2}]
    models = [name for name in VALUES if name.startswith("qwen3_moe_") and name != "qwen3_moe_30b_2layers"]
    for layout in layouts * 3:
        model = draw.choice([name for name in models if VALUES[name]["num_experts"] % layout["ep"] == 0
                             and not ("pp" in layout and VALUES[name]["tie_word_embeddings"])])
        batch, seq = draw.choice(((1, 4096), (2, 1536), (3, 1024), (4, 1024), (1, 6144)))
        if "cp" in layout or "pp" in layout:
            batch, seq = 1, draw.choice((3072, 4096))
        while batch * seq // layout.get("cp", 1) * VALUES[model]["num_experts_per_tok"] % VALUES[model]["num_experts"]:
            seq += 512
        ac = draw.choice(("none", "selective", "full", "every:2"))
        accum = {"grad_accum": draw.choice((2, 3))} if draw.random() < 0.25 else {}
        if "cp" in layout or "pp" in layout:
            accum = {"grad_accum": 4} if "pp" in layout else {}
        yield shape(model, batch=batch, seq=seq, ac=ac, **layout, **accum)
    for ep, ac in ((2, "none"), (4, "selective"), (8, "selective"), (8, "full"), (8, "none")):
        yield shape("qwen3_moe_30b_2layers", ac=ac, world=8, ep=ep)
    yield shape("qwen3_moe_30b_2layers", ac="selective", world=64, ep=32)
    yield shape("qwen3_moe_16_experts_4layers", ac="full", world=32, ep=8)  # shards of a dimension other than the first
    for ac in ("none", "selective"):
        yield shape("qwen3_moe_16_experts_4layers", ac=ac, world=64, ep=8)
    yield shape("qwen3_moe_64_experts_3layers", ac="full", world=8, ep=4, optimizer="adamw-foreach")
    yield shape("qwen3_moe_16_experts_4layers", ac="none", world=8, ep=8, optimizer="adamw-foreach")
    yield shape("qwen3_moe_64_experts_3layers", ac="none", world=8, ep=4, fp8="tensorwise")
    yield shape("qwen3_moe_16_experts_4layers", ac="full", world=16, ep=4, fp8="tensorwise")


def distinct(entries):
    """Each once, in their order."""
    seen = []
    for entry in entries:
        if entry not in seen:
            seen.append(entry)
    return seen


def rank_of(entry):
    """TorchTitan has stages outermost, parts of a layer innermost."""
    data = entry.get("world", 1) // entry.get("pp", 1)
    return entry.get("pp_rank", 0) * data + entry.get("cp_rank", 0) * entry.get("tp", 1)


def all_cases():
    yield from sharded()
    yield from alone()
    yield from in_layers()
    yield from in_sequences()
    yield from in_stages()
    yield from compiled()
    yield from tied()
    yield from experts()
    yield from shared_experts()


if __name__ == "__main__":
    for entry in all_cases():
        print(entry.get("world", 1), rank_of(entry), label(entry))
