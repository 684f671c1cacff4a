"""The cases of torchtitan_peaks.py: models of emulated_cases.py, and the planner's options."""

from emulated_cases import VALUES, label, sizes

# Untied, with layers that TorchTitan's llama3 and qwen3 have.
VALUES |= {
    "llama31_8b_4layers": sizes(4096, 14336, 4, 32, 8, 128, 128256, False, model_type="llama",
                                max_position_embeddings=131072),
    "llama31_8b": sizes(4096, 14336, 32, 32, 8, 128, 128256, False, model_type="llama", max_position_embeddings=131072),
    "qwen3_8b_4layers": sizes(4096, 12288, 4, 32, 8, 128, 151936, False, model_type="qwen3"),
    "smollm17b_untied_8layers": VALUES["smollm17b_untied_8layers"],
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
    """Whose layers are planned as transformers': Inductor has no complex numbers."""
    for ac in ("none", "selective"):
        yield shape("llama31_8b_4layers", ac=ac, world=8, kernels="compiled", transformer_impl="hf")


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


if __name__ == "__main__":
    for entry in all_cases():
        print(entry.get("world", 1), rank_of(entry), label(entry))
