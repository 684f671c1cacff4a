"""The cases of emulated_peaks.py: models, and the planner's options that a step of them is run with."""

import functools

import own_code  # noqa: F401  internlm2, minicpm and baichuan
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
TINY_SIZES = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4, "num_attention_heads": 4,
              "vocab_size": 512, "max_position_embeddings": 4096}
TINY_WITH_TABLE = {"vocab_size": 512, "n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 1024}
TINY_WITHOUT_NAMES = {"vocab_size": 512, "hidden_size": 64}
LATENT = {"kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16}
SHARED = {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 48,
          "first_k_dense_replace": 1}
TINY_LLAMA4 = TINY_SIZES | {"num_key_value_heads": 2, "head_dim": 16, "intermediate_size_mlp": 192,
                            "num_local_experts": 4, "interleave_moe_layer_step": 2, "attention_chunk_size": 16}
DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
         "linear_value_head_dim": 32}
# Families of other norms, MLPs, rotations and positions than Llama's.
OTHERS = {
    "starcoder2": (TINY_SIZES | {"num_key_value_heads": 2}, {
        "starcoder2_3b_4layers": {"hidden_size": 3072, "intermediate_size": 12288, "num_hidden_layers": 4,
                                  "num_attention_heads": 24, "num_key_value_heads": 2, "vocab_size": 49152,
                                  "sliding_window": 4096, "max_position_embeddings": 16384, "residual_dropout": 0.1,
                                  "embedding_dropout": 0.1, "attention_dropout": 0.1}}),
    "gpt_neox": (TINY_SIZES, {
        "pythia_14b_4layers": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 4,
                               "num_attention_heads": 16, "vocab_size": 50304, "rotary_pct": 0.25},
        "neox_in_turn_4layers": {"hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 4,
                                 "num_attention_heads": 12, "vocab_size": 32000, "use_parallel_residual": False,
                                 "hidden_dropout": 0.1}}),
    "phi": (TINY_SIZES, {
        "phi2_4layers": {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 4,
                         "num_attention_heads": 32, "vocab_size": 51200, "partial_rotary_factor": 0.4,
                         "resid_pdrop": 0.1}}),
    "stablelm": (TINY_SIZES | {"num_key_value_heads": 2}, {
        "stablelm2_16b_4layers": {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 4,
                                  "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 100352,
                                  "use_qkv_bias": True},
        "stablelm_parallel_4layers": {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 4,
                                      "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 50304,
                                      "use_parallel_residual": True}}),
    "nemotron": (TINY_SIZES | {"num_key_value_heads": 2}, {
        "minitron_4b_4layers": {"hidden_size": 3072, "intermediate_size": 9216, "num_hidden_layers": 4,
                                "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128,
                                "vocab_size": 256000}}),
    "cohere": (TINY_SIZES | {"num_key_value_heads": 2}, {
        "aya_8b_4layers": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 4,
                           "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 256000}}),
    "cohere2": (TINY_SIZES | {"num_key_value_heads": 2, "sliding_window": 16}, {
        "command_r7b_4layers": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 4,
                                "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 256000,
                                "sliding_window": 4096}}),
    "gpt2": (TINY_WITH_TABLE, {"gpt2_12layers": {"n_positions": 2048}}),
    "opt": ({"hidden_size": 64, "ffn_dim": 160, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 512}, {
        "opt_13b_4layers": {"hidden_size": 2048, "ffn_dim": 8192, "num_hidden_layers": 4, "num_attention_heads": 32,
                            "vocab_size": 50272}}),
    "glm": (TINY_SIZES | {"num_key_value_heads": 2, "head_dim": 16, "pad_token_id": 0}, {
        "glm_9b_4layers": {"num_hidden_layers": 4}}),
    "glm4": (TINY_SIZES | {"num_key_value_heads": 2, "head_dim": 16, "pad_token_id": 0}, {
        "glm4_9b_4layers": {"num_hidden_layers": 4}}),
    "qwen2_moe": (TINY_SIZES | {"num_key_value_heads": 2, "num_experts": 8, "num_experts_per_tok": 2,
                                "moe_intermediate_size": 48, "shared_expert_intermediate_size": 96}, {
        "qwen15_moe_27b_4layers": {"num_hidden_layers": 4}}),
    "gpt_oss": (TINY_SIZES | {"num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 8,
                              "num_experts_per_tok": 2, "sliding_window": 16}, {
        "gpt_oss_20b_2layers": {"num_hidden_layers": 2, "num_local_experts": 32}}),
    "deepseek_v2": (TINY_SIZES | LATENT | SHARED | {"q_lora_rank": 24}, {
        "deepseek_v2_lite_3layers": {
            "hidden_size": 2048, "intermediate_size": 10944, "num_hidden_layers": 3, "num_attention_heads": 16,
            "num_key_value_heads": 16, "q_lora_rank": None, "n_routed_experts": 64, "num_experts_per_tok": 6,
            "n_shared_experts": 2, "moe_intermediate_size": 1408, "first_k_dense_replace": 1, "vocab_size": 102400}}),
    "deepseek_v3": (TINY_SIZES | LATENT | SHARED | {"q_lora_rank": 24, "n_group": 2, "topk_group": 1}, {
        "moonlight_16b_3layers": {
            "hidden_size": 2048, "intermediate_size": 11264, "num_hidden_layers": 3, "num_attention_heads": 16,
            "num_key_value_heads": 16, "q_lora_rank": None, "n_routed_experts": 64, "num_experts_per_tok": 6,
            "n_shared_experts": 2, "moe_intermediate_size": 1408, "first_k_dense_replace": 1, "n_group": 1,
            "topk_group": 1, "vocab_size": 163840},
        "deepseek_v3_16_experts_4layers": {"num_hidden_layers": 4, "n_routed_experts": 16, "hidden_size": 4096,
                                           "num_attention_heads": 64, "intermediate_size": 9216}}),
    "ministral3": (TINY_SIZES | {"num_key_value_heads": 2, "head_dim": 16}, {
        "ministral3_8b_4layers": {"num_hidden_layers": 4}}),
    "internlm2": (TINY_SIZES | {"num_key_value_heads": 2, "bias": True}, {
        "internlm25_7b_4layers": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 4,
                                  "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 92544}}),
    "minicpm": (TINY_SIZES | {"num_key_value_heads": 2, "scale_emb": 12.0, "scale_depth": 1.4, "dim_model_base": 16}, {
        "minicpm_2b_4layers": {"hidden_size": 2304, "intermediate_size": 5760, "num_hidden_layers": 4,
                               "num_attention_heads": 36, "num_key_value_heads": 36, "vocab_size": 122753,
                               "scale_emb": 12.0, "scale_depth": 1.4, "dim_model_base": 256}}),
    "baichuan": (TINY_SIZES, {
        "baichuan2_7b_4layers": {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 4,
                                 "num_attention_heads": 32, "vocab_size": 125696},
        "baichuan_7b_2layers": {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 2,
                                "num_attention_heads": 32, "vocab_size": 64000}}),
    "llama4_text": (TINY_LLAMA4, {
        "llama4_scout_4_experts_4layers": {"num_hidden_layers": 4, "num_local_experts": 4},
        "llama4_in_turn_8_experts_4layers": {
            "hidden_size": 2560, "num_hidden_layers": 4, "num_attention_heads": 20, "num_key_value_heads": 4,
            "num_local_experts": 8, "intermediate_size": 4096, "intermediate_size_mlp": 8192, "vocab_size": 100352,
            "interleave_moe_layer_step": 2, "use_qk_norm": False, "attention_chunk_size": 1024,
            "num_experts_per_tok": 2}}),
    "glm4_moe": (TINY_SIZES | {"num_key_value_heads": 2, "head_dim": 16, "n_routed_experts": 8, "num_experts_per_tok": 2,
                               "moe_intermediate_size": 48, "use_qk_norm": True}, {
        "glm45_air_3layers": {"num_hidden_layers": 3, "head_dim": 128, "attention_bias": True}}),
    "qwen3_next": (TINY_SIZES | DELTA | {
        "num_key_value_heads": 2, "head_dim": 16, "num_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 48, "shared_expert_intermediate_size": 96}, {
        "qwen3_next_80b_4layers": {"num_hidden_layers": 4, "num_experts": 64},
        # as many heads of keys as of values, another head of values, a block without experts
        "qwen3_next_equal_heads_3layers": {
            "num_hidden_layers": 3, "hidden_size": 1024, "num_attention_heads": 8, "head_dim": 128,
            "linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_key_head_dim": 64,
            "linear_value_head_dim": 96, "num_experts": 16, "num_experts_per_tok": 4, "mlp_only_layers": [0],
            "layer_types": ["linear_attention", "full_attention", "linear_attention"], "vocab_size": 32000}}),
    "gptj": (TINY_WITH_TABLE | {"rotary_dim": 8}, {
        "gptj_6b_4layers": {"n_layer": 4},
        "gptj_dropout_2layers": {"n_embd": 1536, "n_layer": 2, "n_head": 12, "rotary_dim": 32, "n_inner": 5120,
                                 "vocab_size": 32000, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}}),
    "bloom": (TINY_WITHOUT_NAMES | {"n_layer": 4, "n_head": 4}, {
        "bloom_7b1_4layers": {"hidden_size": 4096, "n_layer": 4, "n_head": 32},
        "bloom_12_heads_4layers": {"hidden_size": 1536, "n_layer": 4, "n_head": 12, "vocab_size": 50304,
                                   "hidden_dropout": 0.1, "attention_dropout": 0.1}}),
    "falcon": (TINY_WITHOUT_NAMES | {"num_hidden_layers": 4, "num_attention_heads": 4}, {
        "falcon_7b_4layers": {"num_hidden_layers": 4},
        "falcon_11b_2layers": {"hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32,
                               "new_decoder_architecture": True, "num_kv_heads": 8, "num_ln_in_parallel_attn": 1},
        "falcon_40b_2layers": {"hidden_size": 8192, "num_hidden_layers": 2, "num_attention_heads": 128,
                               "new_decoder_architecture": True, "num_kv_heads": 8}}),
    "phimoe": (TINY_SIZES | {"num_key_value_heads": 2, "num_local_experts": 8, "attention_bias": True,
                             "lm_head_bias": True, "input_jitter_noise": 0.01}, {
        "phi35_moe_2layers": {"num_hidden_layers": 2, "attention_bias": True, "lm_head_bias": True,
                              "input_jitter_noise": 0.01, "sliding_window": 131072},
        "phimoe_plain_3layers": {"num_hidden_layers": 3, "hidden_size": 2048, "intermediate_size": 2816,
                                 "num_attention_heads": 16, "num_key_value_heads": 4}}),
}
GRIDS = {"rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [2, 3, 3]}}
# Decoders beside an encoder of images, which no batch here has.
BESIDE_ENCODER = {
    "qwen2_5_vl": ({"text_config": TINY_SIZES | {"num_key_value_heads": 2} | GRIDS,
                    "vision_config": {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 4,
                                      "out_hidden_size": 64}}, {
        "qwen25_vl_3b_4layers": {
            "text_config": {"hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 4,
                            "num_attention_heads": 16, "num_key_value_heads": 2, "vocab_size": 151936,
                            "tie_word_embeddings": True},
            "vision_config": {"hidden_size": 1280, "out_hidden_size": 2048}, "tie_word_embeddings": True}}),
    "qwen3_vl": ({"text_config": TINY_SIZES | {"num_key_value_heads": 2, "head_dim": 16} | GRIDS,
                  "vision_config": {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 4,
                                    "out_hidden_size": 64, "num_position_embeddings": 16,
                                    "deepstack_visual_indexes": [0]}}, {
        "qwen3_vl_8b_4layers": {
            "text_config": {"hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 4,
                            "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 151936},
            "vision_config": {"out_hidden_size": 4096}}}),
    "llama4": ({"text_config": TINY_LLAMA4,
                "vision_config": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                                  "num_attention_heads": 4, "image_size": 56, "projector_input_dim": 64,
                                  "projector_output_dim": 64, "vision_output_dim": 64}}, {
        "llama4_scout_encoder_2layers": {
            "text_config": {"num_hidden_layers": 2, "num_local_experts": 2, "interleave_moe_layer_step": 2},
            "vision_config": {"hidden_size": 1408, "image_size": 336, "vision_output_dim": 4096}}}),
}
# With images: the encoder runs and is trained.
WITH_IMAGES = {
    "llava": ({"text_config": TINY_SIZES | {"model_type": "llama", "num_key_value_heads": 2},
               "vision_config": {"model_type": "clip_vision_model", "hidden_size": 64, "intermediate_size": 128,
                                 "num_hidden_layers": 3, "num_attention_heads": 2, "image_size": 56, "patch_size": 14},
               "image_token_id": 7}, {
        "llava15_7b_4layers": {
            "text_config": {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
                            "num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 32,
                            "vocab_size": 32064},
            "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096,
                              "num_hidden_layers": 24, "num_attention_heads": 16, "image_size": 336, "patch_size": 14,
                              "projection_dim": 768},
            "image_token_id": 32000}}),
}
BESIDE_ENCODER |= WITH_IMAGES
OTHERS |= BESIDE_ENCODER
OTHER_VALUES = {name: {"model_type": family} | values for family, (tiny, real) in OTHERS.items()
                for name, values in ({"tiny_" + family: tiny} | real).items()}


def other_llavas():
    """Another layer's features, the class token among them, another activation."""
    tiny = OTHER_VALUES["tiny_llava"]
    vision = tiny["vision_config"] | {"hidden_act": "gelu", "num_hidden_layers": 5}
    return {"tiny_llava_last": tiny | {"vision_config": vision, "vision_feature_layer": -1,
                                       "vision_feature_select_strategy": "full"},
            "tiny_llava_third": tiny | {"vision_config": vision, "vision_feature_layer": 2}}


def whole_llava():
    cut = OTHER_VALUES["llava15_7b_4layers"]
    return cut | {"text_config": cut["text_config"] | {"num_hidden_layers": 32}}


VALUES = {"tiny_" + name: {"model_type": name} | values for name, values in TINY_FAMILIES.items()} | FAMILIES | WHOLE \
    | OTHER_VALUES | {"llava15_7b": whole_llava()} | other_llavas() \
    | {f"smollm17b_untied_{n}layers": REAL["smollm17b_untied"] | {"num_hidden_layers": n} for n in (8, 14)}
DROPOUTS = ("resid_pdrop", "embd_pdrop", "attn_pdrop", "residual_dropout", "embedding_dropout", "attention_dropout",
            "hidden_dropout", "dropout")


def without_dropout(name):
    """The model with every probability that its configuration has at zero."""
    config = whole_config(VALUES[name]["model_type"], VALUES[name])
    return VALUES[name] | {key: 0.0 for key in DROPOUTS if key in config}


# Experts in their first block, too, which compile_saved.py looks at.
VALUES |= {name: VALUES[base] | {"first_k_dense_replace": 0} for name, base in (
    ("glm45_air_every_block", "glm45_air_3layers"), ("tiny_glm4_moe_every_block", "tiny_glm4_moe"))}

EXPANDABLE = {"alloc_conf": "expandable_segments:True"}
FSDP8 = {"shard": "fsdp2", "world": 8}
NO_SEGMENTS = ("gemma", "olmo3", "gpt_oss", "qwen3_next")  # what transformers gives a block depends on its number
EAGER_ONLY = ("gemma2", "gpt_oss", "gptj", "bloom")  # transformers has no SDPA for them
MASKED = ("falcon",)  # SDPA is always given a mask, which flash attention does not take
UNEQUAL_HEADS = ("deepseek_v2", "deepseek_v3")  # of keys and values, which flash attention does not take
# The chunked loss here has neither a softcap nor a divisor, a factor or a bias.
OWN_LOGITS = ("gemma2", "granite", "cohere", "cohere2", "phi", "minicpm", "gptj", "phimoe", "baichuan")
MORE_MODES = ("llama4_text", "llama4", "baichuan")  # than other families are compared in


@functools.cache
def config_of(model):
    """What transformers would write to config.json."""
    values = without_dropout(model.removesuffix("_undropped")) if model.endswith("_undropped") else VALUES[model]
    return whole_config(values["model_type"], values)


def case(model, batch, seq, ac="none", loss="ce", **more):
    return {"model": model, "batch": batch, "seq": seq, "ac": ac, "loss": loss} | more


def fits_family(entry):
    family = VALUES[entry["model"]]["model_type"]
    segments = entry["ac"].startswith("grouped") and family.startswith(NO_SEGMENTS)
    eager_only = family in EAGER_ONLY + UNEQUAL_HEADS + MASKED and entry.get("attn") == "flash"
    unused = family in BESIDE_ENCODER and entry.get("shard") == "ddp"  # of parameters without gradients it complains
    return not (segments or eager_only or unused or entry["loss"].startswith("chunked") and family in OWN_LOGITS)


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
        if not model.startswith("tiny_") or model in OTHER_VALUES | other_llavas():
            continue
        for ac in ("none", "full", "selective"):
            yield case(model, 2, 32, ac)
        yield case(model, 3, 1000)
        yield case(model, 2, 512, "full", **EXPANDABLE)
        yield case(model, 2, 512, "full", "chunked:256", **FSDP8)


def other_families():
    for model in OTHER_VALUES:
        if model.startswith("tiny_"):
            for ac in ("none", "full", "selective"):
                yield case(model, 2, 32, ac)
            continue
        for ac in ("none", "full", "selective"):
            yield case(model, 2, 2048, ac)
        yield case(model, 3, 1000)
        yield case(model, 2, 2048, attn="flash")
        yield case(model, 2, 2048, "full", "chunked:1024")
        yield case(model, 2, 2048, "full", **EXPANDABLE)
        if OTHER_VALUES[model]["model_type"] not in WITH_IMAGES:  # whose encoder is here in the root's unit
            yield case(model, 3, 1000, "full", **FSDP8)
        yield case(model, 2, 2048, shard="ddp", world=8)
        if OTHER_VALUES[model]["model_type"] in MORE_MODES:
            yield case(model, 2, 2048, "every:2")
            yield case(model, 3, 1000, "selective", attn="flash")
            yield case(model, 2, 2048, **FSDP8)
            for ac in ("none", "full"):
                yield case(model, 2, 512, ac, attn="eager")


def delta_nets():
    """Sequences that are cut into chunks: of many, and of a last one that is not full."""
    for ac in ("none", "full"):
        yield case("tiny_qwen3_next", 2, 200, ac)
        yield case("tiny_qwen3_next", 3, 512, ac)
        yield case("tiny_qwen3_next", 1, 128, ac, attn="eager")
        yield case("qwen3_next_80b_4layers", 1, 4096, ac)
        yield case("qwen3_next_80b_4layers", 2, 2048, ac, **FSDP8)
    yield case("qwen3_next_80b_4layers", 2, 2048, "every:2")
    yield case("qwen3_next_equal_heads_3layers", 2, 1111, "every:2", grad_accum=2)
    yield case("qwen3_next_equal_heads_3layers", 2, 1024, attn="eager")


def other_dtypes_and_optimizers():
    """Of families whose products are plain ones in any dtype."""
    llama4, baichuan = "llama4_in_turn_8_experts_4layers", "baichuan2_7b_4layers"
    wide = {"param_dtype": "fp32", "compute_dtype": "fp32"}
    yield case(llama4, 2, 2048, "none", param_dtype="fp16", compute_dtype="fp16")
    yield case(llama4, 1, 1000, "full", **wide)
    yield case(llama4, 1, 2048, "none", **wide)
    yield case(baichuan, 2, 1000, "none", **wide)
    yield case(baichuan, 2, 1024, "none", optimizer="adamw-foreach")
    for model in (llama4, baichuan):
        yield case(model, 2, 2048, "full", grad_accum=2)


def models_with_images():
    """Two of a whole model, too."""
    for family in WITH_IMAGES:
        for ac in ("none", "full", "selective"):
            yield case("tiny_" + family, 2, 64, ac, images=2)
        for model in WITH_IMAGES[family][1]:
            for ac in ("none", "full", "selective", "every:2"):
                yield case(model, 2, 2048, ac, images=1)
                yield case(model, 1, 2000, ac, images=3)
            yield case(model, 2, 2048, attn="flash", images=1)
            yield case(model, 2, 2048, "full", "chunked:1024", images=2)
            yield case(model, 1, 1024, "none", "chunked:256", images=1, **EXPANDABLE)
            yield case(model, 4, 640, "full", images=1, grad_accum=2)
            yield case(model, 4, 640, "none", images=1, optimizer="adamw-foreach")
    for model in other_llavas():
        for ac in ("none", "full"):
            yield case(model, 2, 64, ac, images=2)
        yield case(model, 1, 64, "none", images=1)
    yield case("llava15_7b", 1, 2048, "full", images=1)
    yield case("llava15_7b", 2, 1024, "full", images=1, **EXPANDABLE)


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
        yield make(ac, attn="eager", batch=1, seq=512)
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


def ends_apart():
    """The embedding, and norm and head, as units of their own."""
    units = FSDP8 | {"fsdp_unit": "torchtitan"}
    mixed = {"param_dtype": "fp32", "compute_dtype": "bf16", "reduce_dtype": "fp32"}
    for model in ("smollm17b_untied_4layers", "mistral7b_4layers", "olmo2_7b_4layers", "qwen3_30b_a3b_4layers"):
        for ac in ("none", "full", "selective"):
            yield case(model, 2, 2048, ac, **units)
            if VALUES[model]["model_type"] in ("llama", "mistral"):
                yield case(model, 2, 2048, ac, **units, **mixed, hold_output=False)
    for more in ({"grad_accum": 2}, EXPANDABLE, {"keep_last_block": True}, {"grad_accum": 3, "no_sync": True}):
        for ac in ("none", "full"):
            yield case("mistral7b_4layers", 2, 2048, ac, **units, **more)
    yield case("mistral7b_4layers", 3, 1000, "full", **units)
    yield case("mistral7b_4layers", 2, 2048, "full", **units | {"world": 64})
    yield case("mistral7b_4layers", 2, 2048, "none", **units, attn="flash")
    for ac in ("full", "selective"):
        yield case("llama8b", 1, 8192, ac, **units, **mixed, hold_output=False, **EXPANDABLE)


def widened_sums():
    """Gradients that wait for the last micro-batch in the reduce dtype."""
    wide = FSDP8 | {"no_sync": True, "reduce_dtype": "fp32"}
    for more in ({}, {"param_dtype": "fp32", "compute_dtype": "bf16"}):
        for ac in ("none", "full"):
            for accum in (2, 4):
                yield case("llama1b_4layers", 2, 2048, ac, **wide, **more, grad_accum=accum)
            yield case("mistral7b_4layers", 2, 2048, ac, **wide, **more, grad_accum=3, fsdp_unit="torchtitan")


def all_cases():
    seen = set()
    for cases in (every_family(), other_families(), other_dtypes_and_optimizers(), delta_nets(), models_with_images(),
                  small_models(), every_mode("llama1b_4layers", 2, 2048), whole_models(), ends_apart(), widened_sums()):
        for entry in cases:
            if fits_family(entry) and label(entry) not in seen:
                seen.add(label(entry))
                yield entry


def label(entry):
    return " ".join(f"{key}={value}" for key, value in entry.items())
