"""The cases of tp_peaks.json: models of emulated_cases.py, and the planner's options."""

import random

from emulated_cases import EXPANDABLE, case, label

MIXED = {"param_dtype": "fp32", "compute_dtype": "bf16", "reduce_dtype": "fp32"}
FAMILIES = ("smollm17b_untied_4layers", "mistral7b_4layers", "qwen2_05b_4layers", "qwen3_06b_4layers",
            "smollm3_3b_4layers")
WHOLE_LOGITS = {"loss_parallel": False}


def sharded(world, tp):
    return {"world": world, "tp": tp, "shard": "fsdp2"}


def alone(tp):
    return {"world": tp, "tp": tp}


def every_mode(model):
    def make(ac="none", batch=2, seq=2048, **more):
        return case(model, batch, seq, ac, **more)

    for ac in ("none", "full", "selective", "every:2", "grouped:2"):
        for tp in (2, 4, 8):
            yield make(ac, **alone(tp))
    for ac in ("none", "full", "selective"):
        for layout in (sharded(8, 2), sharded(8, 4), sharded(16, 8)):
            yield make(ac, **layout)
        yield make(ac, 1, 4096, **alone(4))
        yield make(ac, **sharded(8, 2), **MIXED)
    for ac in ("none", "full"):
        for tp in (2, 8):
            yield make(ac, **alone(tp), **WHOLE_LOGITS)
            yield make(ac, 3, 1000, **alone(tp))
        yield make(ac, **sharded(8, 2), **WHOLE_LOGITS)
        yield make(ac, 3, 1000, **sharded(6, 2))
        yield make(ac, **alone(2), grad_accum=2)
        yield make(ac, **sharded(8, 2), grad_accum=2)
        yield make(ac, **alone(4), hold_output=False)
        yield make(ac, **alone(4), attn="flash")
        yield make(ac, **alone(2), **EXPANDABLE)
        yield make(ac, **sharded(8, 2), **EXPANDABLE)
        yield make(ac, **sharded(8, 2), keep_last_block=True)


def families():
    for model in FAMILIES:
        for ac in ("none", "full", "selective"):
            yield case(model, 2, 2048, ac, **alone(2))
            yield case(model, 2, 2048, ac, **sharded(8, 2))


def single_precision():
    """Norms then have nothing to cast."""
    single = {"param_dtype": "fp32", "compute_dtype": "fp32", "reduce_dtype": "fp32"}
    for ac in ("none", "full", "selective"):
        for model in ("smollm17b_untied_4layers", "qwen3_06b_4layers"):
            yield case(model, 2, 1024, ac, **alone(2), **single)
            yield case(model, 2, 1024, ac, **sharded(8, 2), **single)
    yield case("smollm17b_untied_4layers", 1, 1000, "none", **alone(4), **single)
    yield case("mistral7b_4layers", 1, 2048, "none", **sharded(16, 8), **single)
    yield case("smollm17b_untied_4layers", 2, 1024, "none", **sharded(8, 2), **single, grad_accum=2)


def ends_apart():
    """The embedding, and norm and head, as FSDP2 units of their own."""
    units = {"fsdp_unit": "torchtitan"}
    for model in ("smollm17b_untied_4layers", "mistral7b_4layers"):
        for ac in ("none", "full", "selective"):
            yield case(model, 2, 2048, ac, **sharded(8, 2), **units)
            yield case(model, 2, 2048, ac, **sharded(16, 8), **units, **MIXED)
        yield case(model, 2, 2048, "full", **sharded(8, 2), **units, grad_accum=2)
        yield case(model, 2, 2048, "none", **sharded(8, 2), **units, **WHOLE_LOGITS)


def whole_models():
    for ac in ("full", "selective"):
        yield case("llama8b", 1, 8192, ac, **sharded(64, 8), **MIXED)
        yield case("llama8b", 1, 8192, ac, **sharded(64, 8))
        yield case("llama8b", 1, 8192, ac, **sharded(64, 8), **MIXED, fsdp_unit="torchtitan")


def clipped():
    """torch.nn.utils.clip_grad_norm_, whose norms are of sums to be, whole gradients, shards and replicas."""
    clip = {"clip_grad": 1.0}
    for model in FAMILIES + ("llama1b_4layers",):
        yield case(model, 2, 2048, "full", **alone(2), **clip)
        yield case(model, 2, 2048, "none", **sharded(8, 2), **clip)
    for ac in ("none", "full"):
        yield case("llama1b_4layers", 2, 2048, ac, **alone(8), **clip)
        yield case("smollm17b_untied_4layers", 2, 2048, ac, **sharded(8, 4), **clip, **MIXED)
    for model in ("smollm17b_untied_4layers", "mistral7b_4layers"):
        yield case(model, 2, 2048, "selective", **sharded(16, 8), **clip, **MIXED, fsdp_unit="torchtitan")
        yield case(model, 1, 1024, "full", **alone(4), **clip, param_dtype="fp32", compute_dtype="fp32",
                   reduce_dtype="fp32")
        yield case(model, 1, 1024, "full", **alone(2), **clip, grad_accum=2)
    yield case("llama8b", 1, 8192, "selective", **sharded(64, 8), **MIXED, **clip, fsdp_unit="torchtitan")


def replicas():
    """HSDP: groups of shards beside replicas."""
    for model in ("llama1b_4layers", "smollm17b_untied_4layers", "qwen3_06b_4layers"):
        for ac in ("none", "full", "selective"):
            yield case(model, 2, 2048, ac, world=8, tp=2, shard="hsdp:2")
        yield case(model, 2, 2048, "full", world=16, tp=2, shard="hsdp:4", **MIXED)
        yield case(model, 2, 2048, "full", world=16, tp=4, shard="hsdp:2", **MIXED, clip_grad=1.0, grad_accum=2)
    yield case("smollm17b_untied_4layers", 2, 2048, "selective", world=16, tp=4, shard="hsdp:2", **MIXED,
               fsdp_unit="torchtitan", clip_grad=1.0)


def optimizers():
    for optimizer in ("adamw-foreach", "sgd"):
        for model in ("llama1b_4layers", "smollm17b_untied_4layers", "qwen3_06b_4layers"):
            for layout in (alone(2), alone(4), sharded(8, 2)):
                yield case(model, 1, 1024, "full", **layout, optimizer=optimizer)
        yield case("mistral7b_4layers", 2, 1024, "none", **sharded(8, 4), **MIXED, optimizer=optimizer, clip_grad=1.0)
        yield case("qwen2_05b_4layers", 1, 1024, "full", **alone(2), optimizer=optimizer, clip_grad=1.0)
        yield case("smollm17b_untied_4layers", 1, 1024, "full", world=8, tp=2, shard="hsdp:2", optimizer=optimizer)


def without_synchronisation():
    """Micro-batches before the last reduce nothing over the ranks that see different data."""
    for model in ("llama1b_4layers", "smollm17b_untied_4layers", "qwen3_06b_4layers"):
        for ac in ("none", "full"):
            yield case(model, 2, 1024, ac, **sharded(8, 2), grad_accum=2, no_sync=True)
        yield case(model, 2, 1024, "full", **sharded(8, 4), **MIXED, grad_accum=3, no_sync=True)
        yield case(model, 2, 1024, "full", world=8, tp=2, shard="hsdp:2", **MIXED, grad_accum=3, no_sync=True)
    yield case("smollm17b_untied_4layers", 2, 1024, "selective", **sharded(8, 2), **MIXED, grad_accum=2, no_sync=True,
               fsdp_unit="torchtitan", clip_grad=1.0)


def widened():
    """The output cast to fp32 after the model's forward, drawn by a seeded generator."""
    draw = random.Random(31)
    for _ in range(14):
        tp = draw.choice((2, 2, 4))
        layout = draw.choice((alone(tp), sharded(8, tp), {"world": 8, "tp": tp, "shard": "hsdp:2"}))
        batch, seq = draw.choice(((1, 1024), (1, 2048), (2, 1024), (2, 2048), (3, 1000)))
        more = {"output_dtype": "fp32"} | draw.choice(({}, WHOLE_LOGITS))
        if "shard" in layout and draw.random() < 0.5:
            more |= MIXED
        if draw.random() < 0.3:
            more["grad_accum"] = 2
        if draw.random() < 0.3:
            more["hold_output"] = False
        if draw.random() < 0.3:
            more["optimizer"] = draw.choice(("adamw-foreach", "sgd"))
        if draw.random() < 0.25:
            more |= EXPANDABLE
        if draw.random() < 0.25:
            more["clip_grad"] = 1.0
        model = draw.choice(FAMILIES + ("llama1b_4layers",))
        ac = draw.choice(("none", "full", "selective", "every:2"))
        if layout != {"world": 8, "tp": 4, "shard": "hsdp:2"}:  # one replica is none
            yield case(model, batch, seq, ac, **layout, **more)


def all_cases():
    seen = set()
    for cases in (every_mode("llama1b_4layers"), families(), whole_models(), ends_apart(), single_precision(),
                  clipped(), replicas(), optimizers(), without_synchronisation(), widened()):
        for entry in cases:
            if label(entry) not in seen:
                seen.add(label(entry))
                yield entry
