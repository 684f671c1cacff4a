"""The cases of megatron_peaks.json: models, and Megatron-LM's own options; a case is one rank's step."""

import random

GOLDEN = {"num_layers": 12, "hidden_size": 512, "ffn_hidden_size": 2048, "num_attention_heads": 8, "vocab_size": 50257,
          "max_position_embeddings": 1024}
TINY = {"num_layers": 2, "hidden_size": 128, "ffn_hidden_size": 512, "num_attention_heads": 4, "vocab_size": 1000,
        "max_position_embeddings": 256}
LLAMA = {"gated_linear_unit": True, "add_bias_linear": False, "normalization": "RMSNorm", "position_embedding_type": "rope",
         "hidden_dropout": 0.0, "attention_dropout": 0.0, "untied": True}
VARIANTS = {
    "swiglu": {"gated_linear_unit": True, "ffn_hidden_size": 1344},
    "untied": {"untied": True},
    "without_bias": {"add_bias_linear": False},
    "rope": {"position_embedding_type": "rope"},
    "rope_unfused": {"position_embedding_type": "rope", "no_rope_fusion": True},
    "rope_half_unfused": {"position_embedding_type": "rope", "no_rope_fusion": True, "rotary_percent": 0.5},
    "qk_layernorm": {"qk_layernorm": True},
    "gqa": {"num_query_groups": 2},
    "squared_relu": {"squared_relu": True, "add_bias_linear": False},
    "rmsnorm": {"normalization": "RMSNorm"},
    "without_dropout": {"hidden_dropout": 0.0, "attention_dropout": 0.0},
    "llama": LLAMA | {"ffn_hidden_size": 1344, "num_query_groups": 4},
}
MODELS = {
    "golden": GOLDEN, "golden_4layers": GOLDEN | {"num_layers": 4}, "tiny": TINY, "tiny_4layers": TINY | {"num_layers": 4},
    "larger_4layers": GOLDEN | {"num_layers": 4, "hidden_size": 2048, "ffn_hidden_size": 8192, "num_attention_heads": 16,
                                "vocab_size": 32000, "max_position_embeddings": 2048},
    "larger_llama_4layers": LLAMA | {"num_layers": 4, "hidden_size": 2048, "ffn_hidden_size": 5632,
                                     "num_attention_heads": 16, "num_query_groups": 4, "vocab_size": 32000,
                                     "max_position_embeddings": 2048},
} | {f"golden_{name}_4layers": GOLDEN | {"num_layers": 4} | values for name, values in VARIANTS.items()}

SHARDED = {"use_distributed_optimizer": True}
OVERLAPPED = SHARDED | {"overlap_grad_reduce": True, "overlap_param_gather": True}
SEQUENCE = {"sequence_parallel": True}
UNFUSED, FLASH = ({"impl": "transformer_engine", "attn": backend} for backend in ("unfused", "flash"))
LOCAL = {"impl": "local"}
TORCH = {"impl": "local", "optimizer": "torch", "masked_softmax_fusion": False}  # neither Transformer Engine nor Apex


def case(model, batch=4, micro_batches=None, world=1, **more):
    values = MODELS[model]
    seq = more.pop("seq", values["max_position_embeddings"])
    return {"model": model, "batch": batch, "seq": seq, "world": world, "micro_batches": micro_batches or 2} | more


def config_of(model):
    return MODELS[model]


def label(entry):
    return " ".join(f"{key}={value}" for key, value in entry.items())


def one_rank():
    for impl in (LOCAL, TORCH, UNFUSED, FLASH):
        yield case("tiny", 2, **impl)
        yield case("tiny", 2, **impl, **SHARDED)
        yield case("golden", 4, 4, **impl)
        yield case("golden", 4, 4, **impl, **SHARDED)
        for batch in (1, 2, 3):
            yield case("golden_4layers", batch, **impl)
        yield case("larger_4layers", 1, **impl)
    for impl in (LOCAL, UNFUSED):
        for more in ({"deterministic": False}, {"bias_activation_fusion": False}, {"bias_dropout_fusion": False},
                     {"log_num_zeros": False}, {"masked_softmax_fusion": False}, {"micro_batches": 1}, {"seq": 1000}):
            yield case("golden_4layers", **impl, **more)


def recomputed():
    for impl in (LOCAL, UNFUSED):
        for how in ("full:1", "full:2", "selective"):
            yield case("golden_4layers", **impl, recompute=how)
            yield case("larger_4layers", 1, **impl, recompute=how)
            yield case("larger_4layers", 1, world=2, tp=2, **impl, **SEQUENCE, recompute=how)
            yield case("golden_4layers", world=2, tp=2, **impl, recompute=how)


def variants():
    for impl in (LOCAL, UNFUSED, FLASH):
        for name in VARIANTS:
            yield case(f"golden_{name}_4layers", **impl)
        yield case("larger_llama_4layers", 1, **impl)
        if impl is not LOCAL:  # PyTorch's RMSNorm refuses sequence parallelism
            yield case("larger_llama_4layers", 2, world=2, tp=2, **impl, **SEQUENCE)


def replicas():
    for impl in (LOCAL, UNFUSED, FLASH):
        for more in ({}, SHARDED, OVERLAPPED, {"overlap_grad_reduce": True}):
            yield case("golden", 4, 1, world=8, **impl, **more)
    yield case("golden", 4, 1, world=8, **TORCH)
    yield case("golden", 4, 1, world=8, **TORCH, **SHARDED)


def layers_in_parts():
    for impl in (LOCAL, UNFUSED, FLASH):
        for tp in (2, 4):
            for more in ({}, SEQUENCE):
                yield case("golden", 4, 2, world=8, tp=tp, **impl, **more)
                yield case("golden", 4, 2, world=8, tp=tp, **impl, **more, **OVERLAPPED)
        if impl is not LOCAL:
            yield case("golden_llama_4layers", 4, 2, world=8, tp=2, **impl, **SEQUENCE)
    yield case("golden", 4, 2, world=8, tp=2, **TORCH)


def every_rank(model, pp, world, **more):
    for rank in sorted({0, pp // 2, pp - 1}):
        yield case(model, 4, 8 * 4 * pp * more.get("tp", 1) // (4 * world), world, pp=pp, pp_rank=rank, **more)


def stages():
    for impl in (LOCAL, UNFUSED, FLASH):
        for pp in (2, 4):
            yield from every_rank("golden", pp, 8, **impl)
            yield from every_rank("golden", pp, 8, layers_per_virtual_stage=1, **impl)
            yield from every_rank("golden", pp, 8, **impl, **OVERLAPPED)
        yield from every_rank("golden", 2, 8, tp=2, **impl)
        yield from every_rank("golden", 2, 8, tp=2, **impl, **SEQUENCE)
        yield from every_rank("golden", 4, 8, tp=2, layers_per_virtual_stage=1, **impl, **SEQUENCE, **OVERLAPPED)
        yield from every_rank("golden_untied_4layers", 2, 8, **impl)


def last_ranks():
    """The world's last rank, which is the one that Megatron-LM logs: its shard has the embedding's end."""
    for impl in (LOCAL, UNFUSED, FLASH):
        for more in (SHARDED, OVERLAPPED):
            yield case("golden", 4, 1, 8, last_rank=True, **impl, **more)
        for tp in (2, 4):
            yield case("golden", 4, tp, 8, tp=tp, last_rank=True, **impl, **SEQUENCE, **SHARDED)
        yield case("golden", 4, 4, 8, pp=4, pp_rank=3, layers_per_virtual_stage=1, last_rank=True, **impl, **OVERLAPPED)


# Counting zeros in gradients, with temporaries beside the largest one, is an option of Megatron-LM that is not planned.
PLANNED = {"log_num_zeros": False}


def sequences_in_parts():
    """The last rank, whose chunks of a sequence attend to all others'."""
    for cp in (2, 4):
        for more in ({}, SHARDED):
            yield case("golden", 4, 2, 8, cp=cp, last_rank=True, **PLANNED, **FLASH, **more)
    for micro_batches, more in ((2, {}), (2, SHARDED), (8, {"pp": 2, "pp_rank": 1})):
        yield case("golden", 4, micro_batches, 8, tp=2, cp=2, last_rank=True, **PLANNED, **FLASH, **SEQUENCE, **more)
    yield case("larger_4layers", 1, 2, 2, cp=2, last_rank=True, **PLANNED, **FLASH)
    yield case("larger_4layers", 1, 2, 8, cp=8, last_rank=True, **PLANNED, **FLASH)
    yield case("larger_llama_4layers", 1, 2, 2, cp=2, last_rank=True, **PLANNED, **FLASH)
    yield case("larger_llama_4layers", 1, 2, 4, cp=4, last_rank=True, **PLANNED, **FLASH, **SHARDED)
    for how in ("full:1", "full:2", "selective"):
        yield case("larger_4layers", 1, 2, 4, cp=4, last_rank=True, **PLANNED, **FLASH, recompute=how)


def instances():
    for impl in (UNFUSED, FLASH):
        for count in (2, 4):
            yield case("golden", 4, 1, 8, last_rank=True, **PLANNED, optimizer_instances=count, **impl, **OVERLAPPED)
        yield case("golden", 4, 2, 8, tp=2, last_rank=True, **PLANNED, optimizer_instances=2, **impl, **OVERLAPPED)


def fused_losses():
    """Megatron-core's own fusion (native)."""
    for impl in (LOCAL, UNFUSED):
        fused = PLANNED | {"cross_entropy_fusion": True} | impl
        for batch in (2, 4):  # the loss of one alone reads as no number where kernels do not compute
            yield case("golden_4layers", batch, **fused)
        for tp in (2, 4):
            yield case("golden", 4, 2, 8, tp=tp, last_rank=True, **fused, **SEQUENCE)
        yield case("golden_untied_4layers", 4, 2, 4, pp=2, pp_rank=1, **fused)
        yield case("larger_4layers", 1, **fused)


# Kinds of mixtures, as Megatron-LM's functional tests have them: no biases, and with these no fused GELU.
EXPERTS = {"num_moe_experts": 8, "add_bias_linear": False}
SINKHORN = EXPERTS | {"moe_router_topk": 1, "moe_router_load_balancing_type": "sinkhorn"}
TOP2 = EXPERTS | {"moe_router_topk": 2, "moe_aux_loss_coeff": 0.01, "moe_grouped_gemm": True}
ALLTOALL = {"moe_token_dispatcher_type": "alltoall"}
MIXTURES = {
    "sinkhorn": SINKHORN, "top2": TOP2, "top2_sequential": TOP2 | {"moe_grouped_gemm": False},
    "sinkhorn_grouped": SINKHORN | {"moe_grouped_gemm": True},
    "top2_alltoall": TOP2 | ALLTOALL, "top2_alltoall_sequential": TOP2 | ALLTOALL | {"moe_grouped_gemm": False},
    "top2_shared": EXPERTS | ALLTOALL | {"moe_router_topk": 2, "moe_grouped_gemm": True, "moe_router_dtype": "fp32",
                                         "moe_ffn_hidden_size": 1024, "moe_shared_expert_intermediate_size": 512},
    "top2_fp32": TOP2 | {"moe_router_dtype": "fp32", "moe_aux_loss_coeff": 0.0},
    "mixtral": LLAMA | TOP2 | ALLTOALL | {"ffn_hidden_size": 1792, "num_query_groups": 2},
}
MODELS |= {f"golden_{name}_4layers": GOLDEN | {"num_layers": 4} | values for name, values in MIXTURES.items()}
MODELS |= {f"golden_{name}": GOLDEN | MIXTURES[name] for name in ("sinkhorn", "top2")}


def experts():
    """Mixtures of experts: one rank, expert groups, those with tensor-parallel ranks, stages and rings."""
    unfused = PLANNED | {"bias_activation_fusion": False}
    sharded = {"last_rank": True} | SEQUENCE | SHARDED
    for name in MIXTURES:
        options = UNFUSED | (PLANNED if name == "mixtral" else unfused)
        model = f"golden_{name}_4layers"
        yield case(model, 4, 2, **options)
        yield case(model, 4, 2, 4, ep=4, last_rank=True, **options)
        yield case(model, 4, 2, 8, tp=2, ep=2, **sharded, **options)
        yield case(model, 4, 2, 8, tp=2, ep=4, etp=1, last_rank=True, **SEQUENCE, **options)
        if name in ("sinkhorn", "top2", "top2_alltoall", "mixtral"):
            yield case(model, 4, 2, 8, tp=2, ep=2, deterministic=False, **sharded, **options)
            for rank in (0, 1):
                yield case(model, 4, 4, 8, tp=2, pp=2, pp_rank=rank, ep=2, **sharded, **options)
    for options in (LOCAL, FLASH):
        yield case("golden_sinkhorn", 4, 4, 8, tp=4, pp=2, pp_rank=1, ep=2, etp=2, last_rank=True, **SEQUENCE, **unfused,
                   **options)
    for tp in (1, 2):
        yield case("golden_sinkhorn", 4, 4, 8, tp=tp, cp=2, pp=2, pp_rank=1, ep=2, last_rank=True, sequence_parallel=tp > 1,
                   **unfused, **FLASH)
    yield case("golden_sinkhorn", 4, 2, 4, tp=2, optimizer_instances=2, **sharded, **unfused, **UNFUSED)
    for name in ("sinkhorn", "top2", "top2_alltoall"):
        for how in ("full:1", "selective"):
            yield case(f"golden_{name}_4layers", 4, 2, 8, tp=2, ep=2, recompute=how, **sharded, **unfused, **UNFUSED)


# Models by their configurations on the Hub, as Megatron-Bridge makes Megatron-core's options of them.
ON_THE_HUB = {
    "mixtral": {"model_type": "mixtral", "hidden_size": 512, "intermediate_size": 1792, "num_hidden_layers": 4,
                "num_attention_heads": 8, "num_key_value_heads": 2, "num_local_experts": 8, "num_experts_per_tok": 2,
                "vocab_size": 32000, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "rope_theta": 1e6,
                "sliding_window": None, "tie_word_embeddings": False},
    "qwen3_moe": {"model_type": "qwen3_moe", "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 4,
                  "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128, "num_experts": 64,
                  "num_experts_per_tok": 8, "moe_intermediate_size": 192, "norm_topk_prob": True, "vocab_size": 50257,
                  "max_position_embeddings": 1024, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": False},
    "mistral": {"model_type": "mistral", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 4,
                "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 32000, "max_position_embeddings": 2048,
                "rms_norm_eps": 1e-5, "rope_theta": 1e4, "sliding_window": 512, "tie_word_embeddings": False},
}


def bridged(hub):
    """mixtral_bridge.py and mixtral_provider.py, qwen3_moe_bridge.py, mistral_bridge.py of Megatron-Bridge, in the words of
    `case`."""
    values = {
        "num_layers": hub["num_hidden_layers"], "hidden_size": hub["hidden_size"], "ffn_hidden_size": hub["intermediate_size"],
        "num_attention_heads": hub["num_attention_heads"], "num_query_groups": hub["num_key_value_heads"],
        "vocab_size": hub["vocab_size"], "max_position_embeddings": hub["max_position_embeddings"],
        "kv_channels": hub.get("head_dim", hub["hidden_size"] // hub["num_attention_heads"])}
    if hub.get("sliding_window"):
        values["window_size"] = (hub["sliding_window"], 0)
    if experts := hub.get("num_experts", hub.get("num_local_experts")):
        values |= {"num_moe_experts": experts, "moe_router_topk": hub["num_experts_per_tok"],
                   "moe_ffn_hidden_size": hub.get("moe_intermediate_size", hub["intermediate_size"]),
                   "moe_grouped_gemm": True, "moe_token_dispatcher_type": "alltoall", "moe_permute_fusion": True}
    if hub["model_type"] == "mixtral":
        values |= {"moe_router_pre_softmax": True, "moe_router_load_balancing_type": "none", "moe_aux_loss_coeff": 0.01}
    elif hub["model_type"] == "qwen3_moe":
        values |= {"qk_layernorm": True, "moe_router_load_balancing_type": "aux_loss", "moe_aux_loss_coeff": 1e-3,
                   "moe_router_pre_softmax": False}
    return LLAMA | values


MODELS |= {f"hub_{name}_4layers": bridged(hub) for name, hub in ON_THE_HUB.items()}


def bridged_experts():
    sharded = {"last_rank": True} | SEQUENCE | SHARDED
    for name in ("mixtral", "qwen3_moe"):
        model = f"hub_{name}_4layers"
        for impl in (UNFUSED, FLASH):
            yield case(model, 4, 2, **PLANNED, **impl)
        yield case(model, 4, 2, 4, ep=4, last_rank=True, **PLANNED, **FLASH)
        yield case(model, 2, 2, 8, ep=8, last_rank=True, **PLANNED, **FLASH, **SHARDED)
        yield case(model, 4, 2, 8, tp=2, ep=2, **sharded, **PLANNED, **FLASH)
        yield case(model, 4, 2, 8, tp=2, ep=4, etp=1, last_rank=True, **SEQUENCE, **PLANNED, **UNFUSED)
        yield case(model, 4, 2, 8, ep=4, recompute="full:1", last_rank=True, **SHARDED, **PLANNED, **FLASH)
        for rank in (0, 1):
            yield case(model, 4, 4, 8, tp=2, pp=2, pp_rank=rank, ep=2, **sharded, **PLANNED, **FLASH)


def windows():
    model = "hub_mistral_4layers"
    for impl in (FLASH, UNFUSED):
        for batch in (1, 2):
            yield case(model, batch, **PLANNED, **impl)
    yield case(model, 2, seq=512, **PLANNED, **FLASH)
    yield case(model, 2, 2, 4, tp=2, last_rank=True, **SEQUENCE, **SHARDED, **PLANNED, **FLASH)
    yield case(model, 2, 2, recompute="full:1", **PLANNED, **FLASH)


def in_fp8():
    """Transformer Engine's layers by two of its recipes, one rank, or ranks that see different data."""
    for recipe in ("delayed", "tensorwise"):
        for impl in (UNFUSED, FLASH):
            fp8 = PLANNED | impl | {"fp8": recipe}
            for name in ("golden", "larger", "larger_llama", "golden_swiglu", "golden_without_bias", "golden_rmsnorm"):
                yield case(f"{name}_4layers", 1 if name.startswith("larger") else 4, **fp8)
            for batch in (1, 2):
                yield case("golden_4layers", batch, **fp8)
            yield case("golden", 4, 4, **fp8)
            yield case("golden_4layers", **fp8, micro_batches=1)
            for more in ({}, SHARDED):
                yield case("golden_4layers", 4, 1, 8, **fp8, **more)
                yield case("larger_llama_4layers", 1, 2, 8, last_rank=True, **fp8, **more)


def shared_in_fp8():
    """The same in ranks that share layers, with and without sequence parallelism."""
    for recipe in ("delayed", "tensorwise"):
        for more in ({}, SEQUENCE):
            shared = PLANNED | {"fp8": recipe, "last_rank": True} | more
            yield case("golden_4layers", 4, 2, 2, tp=2, **shared, **FLASH)
            yield case("golden_swiglu_4layers", 4, 2, 8, tp=4, **shared, **SHARDED, **UNFUSED)
            yield case("larger_llama_4layers", 1, 2, 2, tp=2, **shared, **FLASH)
            yield case("larger_4layers", 2, 2, 8, tp=4, **shared, **SHARDED, **FLASH)
            yield case("larger_llama_4layers", 2, 2, 4, tp=2, **shared, **UNFUSED)


def drawn_layout(draw):
    """World and ranks of a draw, and which of them is measured."""
    return draw.choice((
        (1, {}), (2, {"ep": 2}), (4, {"ep": 4} | SHARDED), (4, {"tp": 2, "ep": 2} | SEQUENCE),
        (8, {"tp": 2, "ep": 4, "etp": 1} | SEQUENCE), (8, {"tp": 2, "ep": 2} | SEQUENCE | SHARDED),
        (8, {"tp": 2, "pp": 2, "pp_rank": draw.randrange(2), "ep": 2} | SEQUENCE | SHARDED),
        (4, {"cp": 2, "ep": 2})))


def experts_in_fp8():
    """Mixtures in FP8, drawn: which, by which recipe and layout, recomputed or not. Of sequences of 1,008 tokens experts' rows
    are filled up; 1,000 on a rank, which are no multiple of 16, Transformer Engine refuses. The second draw was measured when
    the first was planned."""
    yield from drawn_in_fp8(random.Random(20261128), 32)
    yield from drawn_in_fp8(random.Random(20261129), 16)


def drawn_in_fp8(draw, count):
    models = ("hub_mixtral", "hub_qwen3_moe", "golden_sinkhorn", "golden_sinkhorn_grouped", "golden_top2",
              "golden_top2_sequential", "golden_top2_alltoall", "golden_top2_alltoall_sequential", "golden_top2_shared",
              "golden_mixtral")
    for i in range(count):
        name, (world, ranks) = draw.choice(models), drawn_layout(draw)
        swiglu = name.startswith("hub") or name == "golden_mixtral"
        micro_batches = 4 if "pp" in ranks else 2
        options = PLANNED | (FLASH if "cp" in ranks else draw.choice((UNFUSED, FLASH))) | ranks
        options |= {} if swiglu else {"bias_activation_fusion": False}
        options |= {} if world == 1 else {"last_rank": True}
        recompute = draw.choice(("none", "none", "none", "full:1", "selective"))
        options |= {} if recompute == "none" or "cp" in ranks and recompute == "selective" else {"recompute": recompute}
        yield case(f"{name}_4layers", draw.choice((1, 2, 4)), micro_batches, world, **options,
                   fp8=("delayed", "tensorwise")[i % 2], seq=draw.choice((1024, 1024, 1008)))


def fused_gradients():
    """Weight gradients that are added to the main ones by their products, drawn: dense models and mixtures, every layout,
    recomputed or not, in bf16 and FP8."""
    draw = random.Random(20261130)
    dense = ("golden", "golden_llama_4layers", "golden_untied_4layers", "golden_gqa_4layers", "golden_without_bias_4layers",
             "golden_qk_layernorm_4layers", "larger_4layers", "larger_llama_4layers")
    mixtures = ("hub_mixtral", "hub_qwen3_moe", "golden_top2", "golden_top2_sequential", "golden_top2_alltoall",
                "golden_top2_shared", "golden_sinkhorn", "golden_mixtral")
    for i in range(36):
        name = draw.choice(dense) if i % 3 < 2 else f"{draw.choice(mixtures)}_4layers"
        if i % 3 < 2:
            world, ranks = draw.choice((
                (1, {}), (1, {}), (8, SHARDED), (8, {"tp": 2} | SEQUENCE), (8, {"tp": 4} | SEQUENCE | SHARDED),
                (2, {"tp": 2}), (8, {"pp": 2, "pp_rank": draw.randrange(2)} | SHARDED), (4, {"cp": 2}),
                (4, {"tp": 2, "pp": 2, "pp_rank": draw.randrange(2)} | SEQUENCE)))
        else:
            world, ranks = drawn_layout(draw)
        options = PLANNED | (FLASH if "cp" in ranks else draw.choice((UNFUSED, FLASH))) | ranks
        if i % 3 == 2 and not MODELS[name].get("gated_linear_unit"):
            options |= {"bias_activation_fusion": False}
        options |= {} if world == 1 else {"last_rank": True}
        recompute = draw.choice(("none", "none", "none", "full:1", "selective"))
        options |= {} if recompute == "none" or "cp" in ranks and recompute == "selective" else {"recompute": recompute}
        fp8 = draw.choice(("none", "none", "delayed", "tensorwise"))
        options |= {} if fp8 == "none" or "cp" in ranks else {"fp8": fp8}
        yield case(name, draw.choice((1, 2, 4)), 4 if "pp" in ranks else draw.choice((1, 2)), world, **options,
                   gradient_fusion=True, seq=1024)


# Latent attention, of sizes apart from one another, and DeepSeek-V3's mixture.
LATENT = LLAMA | {"multi_latent_attention": True, "q_lora_rank": 192, "kv_lora_rank": 128, "qk_head_dim": 64,
                  "qk_pos_emb_head_dim": 32, "v_head_dim": 64, "qk_layernorm": True, "no_rope_fusion": True,
                  "original_max_position_embeddings": 1024, "ffn_hidden_size": 1344}
GROUPED = {"num_moe_experts": 16, "moe_router_topk": 4, "moe_ffn_hidden_size": 256, "moe_router_num_groups": 4,
           "moe_router_group_topk": 2, "moe_router_score_function": "sigmoid", "moe_router_topk_scaling_factor": 2.5,
           "moe_grouped_gemm": True, "moe_token_dispatcher_type": "alltoall", "moe_permute_fusion": True,
           "moe_router_dtype": "fp32"}
BY_SEQUENCE = {"moe_router_load_balancing_type": "seq_aux_loss", "moe_aux_loss_coeff": 1e-4}
DEEPSEEK = LATENT | GROUPED | BY_SEQUENCE | {
    "moe_layer_freq": [0, 1, 1, 1], "moe_router_enable_expert_bias": True, "moe_shared_expert_intermediate_size": 256,
    "moe_router_pre_softmax": True}
LATENT_MODELS = {
    "latent": LATENT, "latent_rope": LATENT | {"rope_type": "rope"}, "latent_whole_queries": LATENT | {"q_lora_rank": None},
    "latent_wide": LATENT | {"hidden_size": 1024, "num_attention_heads": 16, "q_lora_rank": 384, "kv_lora_rank": 256,
                             "qk_head_dim": 128, "qk_pos_emb_head_dim": 64, "v_head_dim": 128, "ffn_hidden_size": 2816},
    "deepseek": DEEPSEEK,
    "deepseek_without_bias": {k: v for k, v in DEEPSEEK.items() if k != "moe_router_enable_expert_bias"},
    "deepseek_narrow_router": {k: v for k, v in DEEPSEEK.items() if k != "moe_router_dtype"},
    "deepseek_without_loss": DEEPSEEK | {"moe_router_load_balancing_type": "none", "moe_aux_loss_coeff": 0.0},
    "deepseek_aux_loss": DEEPSEEK | {"moe_router_load_balancing_type": "aux_loss", "moe_layer_freq": 1},
    "sigmoid": LLAMA | GROUPED | BY_SEQUENCE | {"ffn_hidden_size": 1344, "num_query_groups": 2},
}
MODELS |= {f"golden_{name}_4layers": GOLDEN | {"num_layers": 4} | values for name, values in LATENT_MODELS.items()}


def latent():
    """Latent attention and DeepSeek-V3's mixtures, drawn: layouts, recomputed or not, gradients added by products or not.
    FlashAttention 2 has no such heads."""
    draw = random.Random(20261131)
    for i in range(36):
        name = draw.choice([name for name in LATENT_MODELS if name.startswith("latent") == (i % 3 == 0)])
        if name.startswith("latent"):
            world, ranks = draw.choice((
                (1, {}), (8, SHARDED), (8, {"tp": 2} | SEQUENCE | SHARDED), (8, {"tp": 4} | SEQUENCE), (2, {"tp": 2}),
                (4, {"tp": 2, "pp": 2, "pp_rank": draw.randrange(2)} | SEQUENCE)))
        else:
            world, ranks = draw.choice((
                (1, {}), (4, {"ep": 4} | SHARDED), (4, {"tp": 2, "ep": 2} | SEQUENCE),
                (8, {"tp": 2, "ep": 4, "etp": 1} | SEQUENCE | SHARDED),
                (8, {"tp": 2, "pp": 2, "pp_rank": draw.randrange(2), "ep": 4, "etp": 1} | SEQUENCE | SHARDED)))
        options = PLANNED | (FLASH if name == "sigmoid" and draw.random() < 0.5 else UNFUSED) | ranks
        options |= {} if world == 1 else {"last_rank": True}
        recompute = draw.choice(("none", "none", "full:1", "selective"))
        options |= {} if recompute == "none" else {"recompute": recompute}
        options |= {"gradient_fusion": True} if draw.random() < 0.6 else {}
        yield case(f"golden_{name}_4layers", draw.choice((1, 2, 4)), 4 if "pp" in ranks else draw.choice((1, 2)), world,
                   **options, seq=1024)


# With fewer words than activations of layers weigh.
MODELS |= {f"{name}_words": MODELS[name] | {"vocab_size": 4096} for name in (
    "golden_4layers", "golden_llama_4layers", "golden_gqa_4layers", "larger_4layers", "larger_llama_4layers",
    "golden_top2_4layers", "golden_top2_sequential_4layers", "golden_top2_shared_4layers", "golden_mixtral_4layers",
    *(f"golden_{name}_4layers" for name in LATENT_MODELS))}


def parts_of(name, impl, fp8):
    """What --recompute-modules may name of the model."""
    values = MODELS[name]
    experts, latent_heads = "num_moe_experts" in values, values.get("multi_latent_attention", False)
    stays = fp8 == "delayed"  # refuses parts whose output is let go of
    parts = ["core_attn"]
    parts += ["layernorm"] if not stays and (experts or latent_heads or impl is LOCAL) else []
    parts += ["mla_up_proj"] if latent_heads else []
    # A bias that an MLP returns becomes its checkpoint's output, whose backward then runs itself without end.
    biased = values.get("add_bias_linear", True)
    parts += ["mlp"] if not biased and (not experts or isinstance(values.get("moe_layer_freq"), list)) else []
    # What corrects scores is counted twice in a recomputation, which the emulated device does not run.
    parts += ["moe"] if experts and not values.get("moe_router_enable_expert_bias") else []
    parts += ["moe_act"] if values.get("moe_grouped_gemm") and not stays else []
    parts += ["shared_experts"] if values.get("moe_shared_expert_intermediate_size") else []
    return parts


def recomputed_parts():
    """Parts of layers, and the first layers of a stage, that are recomputed, drawn: dense models, latent attention and
    mixtures, every layout, in bf16 and FP8. The second draw was measured when the first was planned."""
    yield from drawn_parts(random.Random(20261132), 60)
    yield from drawn_parts(random.Random(20261133), 18)


def drawn_parts(draw, count):
    dense = [f"{name}_words" for name in ("golden_4layers", "golden_llama_4layers", "golden_gqa_4layers", "larger_4layers",
                                          "larger_llama_4layers")]
    mixtures = ["hub_mixtral_4layers", "hub_qwen3_moe_4layers", *(
        f"golden_{name}_4layers_words" for name in ("top2", "top2_sequential", "top2_shared", "mixtral"))]
    latent_models = [f"golden_{name}_4layers_words" for name in LATENT_MODELS]
    for i in range(count):
        name = draw.choice((dense, latent_models, mixtures)[i % 3])
        values = MODELS[name]
        experts, latent_heads = "num_moe_experts" in values, values.get("multi_latent_attention", False)
        if experts:
            world, ranks = draw.choice((
                (1, {}), (4, {"ep": 4} | SHARDED), (4, {"tp": 2, "ep": 2} | SEQUENCE),
                (8, {"tp": 2, "ep": 4, "etp": 1} | SEQUENCE | SHARDED),
                (8, {"tp": 2, "pp": 2, "pp_rank": draw.randrange(2), "ep": 2} | SEQUENCE | SHARDED)))
        else:
            world, ranks = draw.choice((
                (1, {}), (1, {}), (8, SHARDED), (8, {"tp": 2} | SEQUENCE), (8, {"tp": 4} | SEQUENCE | SHARDED), (2, {"tp": 2}),
                (8, {"pp": 2, "pp_rank": draw.randrange(2)} | SHARDED),
                (4, {"tp": 2, "pp": 2, "pp_rank": draw.randrange(2)} | SEQUENCE)))
        own = not experts and not latent_heads and values.get("normalization") != "RMSNorm" and draw.random() < 0.4
        impl = LOCAL if own else UNFUSED if latent_heads else draw.choice((UNFUSED, FLASH))
        fp8 = draw.choice(("none", "none", "delayed", "tensorwise"))
        fp8 = "none" if own or latent_heads else fp8
        parts = parts_of(name, impl, fp8)
        sample = draw.sample(parts, min(len(parts), draw.choice((1, 1, 1, 2, 2, 3))))
        chosen = [part for part in parts if part in sample]
        if "moe" in chosen:  # what is in it is not named beside it
            chosen = [part for part in chosen if part not in ("moe_act", "shared_experts")]
        first = not values.get("moe_router_enable_expert_bias") and draw.random() < 0.12
        recompute = f"first:{draw.choice((1, 2, 3))}" if first else "modules:" + "+".join(chosen)
        options = PLANNED | impl | ranks | {"recompute": recompute}
        options |= {"bias_activation_fusion": False} if experts and not values.get("gated_linear_unit") else {}
        options |= {} if world == 1 else {"last_rank": True}
        options |= {} if fp8 == "none" else {"fp8": fp8}
        yield case(name, draw.choice((1, 2, 4)), 4 if "pp" in ranks else draw.choice((1, 2)), world, **options,
                   gradient_fusion=True, seq=1024)


def all_cases():
    seen = set()
    for cases in (one_rank(), recomputed(), variants(), replicas(), layers_in_parts(), stages(), last_ranks(),
                  sequences_in_parts(), instances(), fused_losses(), experts(), bridged_experts(), windows(), in_fp8(),
                  shared_in_fp8(), experts_in_fp8(), fused_gradients(), latent(), recomputed_parts()):
        for entry in cases:
            if label(entry) not in seen:
                seen.add(label(entry))
                yield entry


def rank_of(entry):
    """The first of a stage's ranks, which are neighbours, or the last."""
    ranks = entry["world"] // entry.get("pp", 1)
    return entry.get("pp_rank", 0) * ranks + (ranks - 1 if entry.get("last_rank") else 0)


if __name__ == "__main__":
    for world, rank in sorted({(entry["world"], rank_of(entry)) for entry in all_cases()}):
        print(world, rank)
