"""A second draw of fine-tuning steps, with other seeds, of more families and of all that is planned beside them: PEFT's
other methods, adapters in compiled blocks and beside experts, DeepSpeed's stages, FP8, images, softcaps, odd worlds.
blind_finetune_peaks.py builds them. Each seed's figures were written down before any step of it was planned for;
docs/adapters.md has them.
"""

from drawn_cases import distinct
from drawn_finetune_cases import AUTOCAST, IN_FP16, OPTIMIZERS, TRAINER, UNNAMED, family, with_base_dtype
from drawn_finetune_cases import is_planned as first_draw_plans
from emulated_cases import EAGER_ONLY, EXPANDABLE, MASKED, case, config_of

DRAWS = ((2026, 60), (333, 40))  # seeds, and how many; the second after what the first had missed was mended
SIZES = ((1, 512), (1, 900), (1, 1500), (1, 2048), (1, 3072), (2, 333), (2, 777), (2, 1024), (3, 640), (3, 999), (4, 512),
         (5, 400), (7, 150), (8, 256))
MODES = ("none", "none", "full", "full", "selective", "every:3")
LLAMAS = ("llama1b_4layers", "qwen2_05b_4layers", "qwen3_06b_4layers", "mistral7b_4layers", "gemma_7b_4layers",
          "smollm3_3b_4layers", "granite31_8b_4layers", "olmo2_7b_4layers", "smollm17b_untied_4layers")
NEW = ("gemma2_2b_4layers", "gemma3_1b_6layers", "olmo3_7b_4layers", "minitron_4b_4layers", "aya_8b_4layers",
       "command_r7b_4layers", "glm_9b_4layers", "glm4_9b_4layers", "ministral3_8b_4layers", "internlm25_7b_4layers",
       "minicpm_2b_4layers", "baichuan2_7b_4layers", "falcon_7b_4layers", "falcon_11b_2layers", "bloom_12_heads_4layers",
       "gptj_6b_4layers", "stablelm_parallel_4layers", "neox_in_turn_4layers", "qwen25_vl_3b_4layers", "qwen3_vl_8b_4layers")
OLD = ("phi3_mini_4layers", "phi2_4layers", "pythia_14b_4layers", "gpt2_12layers", "opt_13b_4layers", "starcoder2_3b_4layers")
EXPERTS = ("mixtral8x7b_2layers", "qwen3_30b_a3b_4layers", "olmoe_1b_7b_4layers", "qwen15_moe_27b_4layers",
           "phi35_moe_2layers", "glm45_air_3layers", "small_mixtral")
IMAGES = "llava15_7b_4layers"
NAMES = {"minitron_4b_4layers": "q_proj,up_proj", "glm_9b_4layers": "q_proj,v_proj", "glm4_9b_4layers": "q_proj,o_proj",
         "internlm25_7b_4layers": "wqkv,wo", "baichuan2_7b_4layers": "W_pack,o_proj", "falcon_7b_4layers": "query_key_value",
         "falcon_11b_2layers": "query_key_value,dense", "bloom_12_heads_4layers": "query_key_value",
         "gptj_6b_4layers": "q_proj,fc_in", "neox_in_turn_4layers": "query_key_value,dense", "phi2_4layers": "q_proj,fc1",
         "pythia_14b_4layers": "query_key_value", "gpt2_12layers": "c_attn", "opt_13b_4layers": "k_proj,v_proj",
         "phi3_mini_4layers": "qkv_proj", "starcoder2_3b_4layers": "q_proj,c_proj"}
OWN_HEADS = ("baichuan",)  # for which a Trainer's preset takes another loss, and says so
WRAPPERS, WITH_WINDOWS = ("qwen2_5_vl", "qwen3_vl"), ("cohere2", "gemma3_text", "olmo3", "phi3", "starcoder2")
METHODS = ("ia3", "ln-tuning", "prompt-tuning:16", "p-tuning:24", "prefix-tuning:20", "trainable-tokens:32", "loha:16",
           "lokr:16", "vera:128", "miss:32", "oft:32", "road:1", "adalora:12", "glora:4", "delora:16")
ATTENTION = "q_proj,v_proj"
LAYOUTS = ({}, {}, {}, {"shard": "ddp", "world": 2}, {"shard": "ddp", "world": 5}, {"shard": "fsdp2", "world": 4},
           {"shard": "fsdp2", "world": 7})


def some(random, share, **options):
    return options if random.random() < share else {}


def size(random, multiple=1):
    return random.choice([(batch, seq) for batch, seq in SIZES if batch * seq % multiple == 0])


def loop(random):
    kernels = {} if random.random() < 0.6 else {"attn": random.choice(("flash", "eager"))}
    return some(random, 0.3, grad_accum=random.choice((2, 3))) | some(random, 0.3, clip_grad=1.0) \
        | some(random, 0.3, hold_output=False) | some(random, 0.2, **EXPANDABLE) | kernels


def lora(random, model):
    targets = random.choice(("all-linear", "all-linear", NAMES.get(model, ATTENTION)))
    return {"lora": random.choice((4, 8, 16, 32, 128)), "lora_targets": targets}


def adapted(random, model):
    layout = random.choice(LAYOUTS)
    entry = case(model, *size(random), random.choice(MODES)) | layout | lora(random, model) | loop(random)
    entry |= random.choice(({}, {}, {"lora_dropout": 0.1}, {"dora": True}))
    entry |= some(random, 0.5, quantize=random.choice(("nf4", "nf4-double", "int8")))
    entry |= some(random, 0.4, lora_dtype="bf16")
    if layout.get("shard") != "fsdp2":
        entry |= random.choice(({}, {}, AUTOCAST, AUTOCAST | {"param_dtype": "bf16"}, IN_FP16))
        if entry.get("quantize") and entry.get("param_dtype") != "bf16":
            entry |= some(random, 0.4, kbit_prepare=True)
        entry |= some(random, 0.3, optimizer=random.choice(OPTIMIZERS[:-1]))
    return entry | some(random, 0.2, loss="ce-no-upcast")


def beside_experts(random, _):
    entry = case(random.choice(EXPERTS), *size(random), random.choice(("none", "full", "selective")))
    names = random.choice((ATTENTION, "q_proj,k_proj,v_proj,o_proj"))
    return entry | {"lora": random.choice((8, 16, 64)), "lora_targets": names} | loop(random) \
        | some(random, 0.5, lora_dtype="bf16") | some(random, 0.4, shard="fsdp2", world=4) \
        | some(random, 0.3, optimizer="adamw-foreach")


def other_method(random, model):
    method = random.choice(METHODS)
    linear = method.split(":")[0] not in ("ln-tuning", "prompt-tuning", "p-tuning", "prefix-tuning", "trainable-tokens")
    entry = case(model, *size(random), random.choice(("none", "full")), adapter=method) | loop(random)
    if linear and (random.random() < 0.6 or model in UNNAMED + tuple(NAMES) or method.startswith("adalora")):
        entry["lora_targets"] = random.choice(("all-linear", NAMES.get(model, ATTENTION)))
    return entry | some(random, 0.3, optimizer=random.choice(("adamw-foreach", "sgd", "adamw-8bit", "paged-adamw", "lion")))


def compiled(random, _):
    entry = case(random.choice(LLAMAS), *size(random), random.choice(("none", "full", "selective", "memory-budget:0.4")),
                 kernels="compiled", attn=random.choice(("cudnn", "cudnn", "flash")), lora=random.choice((8, 32)),
                 lora_targets=random.choice(("all-linear", ATTENTION)), input_require_grads=random.choice(("on", "off")))
    return entry | some(random, 0.5, lora_dtype="bf16") | some(random, 0.3, grad_accum=2) | some(random, 0.3, hold_output=False)


def whole(random, model):
    layout = random.choice(LAYOUTS)
    entry = case(model, *size(random), random.choice(MODES)) | layout | loop(random)
    if layout.get("shard") == "fsdp2":
        return entry | some(random, 0.4, optimizer=random.choice(("adamw-foreach", "sgd"))) | some(random, 0.4, no_sync=True)
    entry |= random.choice(({}, {}, AUTOCAST, IN_FP16))
    kind = random.choice(("optimizer", "optimizer", "offload", "ema", "packing"))
    if kind == "optimizer":
        entry["optimizer"] = random.choice(OPTIMIZERS)
    elif kind == "offload":
        entry["offload"] = random.choice(("optimizer", "gradients", "activations"))
    elif kind == "packing":
        entry |= {"packing": random.choice((2, 5)), "attn": random.choice(("flash", "auto"))}
    return entry | some(random, kind == "ema", ema=True)


def trainer(random, model):
    batch, seq = size(random)
    entry = {"model": model, "batch": batch, "seq": seq, "framework": random.choice(("hf-trainer", "trl")),
             "ac": random.choice(("none", "full", "full"))}
    if random.random() < 0.7:
        entry |= lora(random, model) | some(random, 0.5, quantize=random.choice(("nf4", "nf4-double", "int8")))
        entry |= some(random, 0.3, lora_dropout=0.05)
    entry |= some(random, 0.3, param_dtype="bf16") | some(random, 0.4, optimizer=random.choice(OPTIMIZERS[:-1]))
    return entry | some(random, 0.4, grad_accum=random.choice((2, 8))) | some(random, 0.2, packing=4, attn="flash")


def tune(random, _):
    entry = case(random.choice(LLAMAS), *size(random, 8), random.choice(("full", "none")), "chunked-logits:8",
                 framework="torchtune", transformer_impl="hf")
    names = {"lora": random.choice((8, 64)), "lora_targets": "q_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"}
    return entry | random.choice(({}, {"shard": "fsdp2", "world": 2}, {"shard": "fsdp2", "world": 6})) \
        | some(random, 0.6, **names) | some(random, 0.3, grad_accum=4) | some(random, 0.3, offload="activations")


def on_deepspeed(random, _):
    """An engine keeps no output."""
    stage = random.choice(("zero1", "zero2", "zero3"))
    entry = case(random.choice(LLAMAS), *size(random), random.choice(("none", "full")), attn="flash", hold_output=False,
                 shard=stage, world=random.choice((2, 3, 8)))
    kind = random.choice(("lora", "lora", "nf4", "offload", "whole") if stage != "zero3" else ("lora", "whole"))
    if kind in ("lora", "nf4"):
        entry |= {"lora": random.choice((8, 32)), "lora_targets": random.choice(("all-linear", ATTENTION)),
                  "lora_dtype": "fp32" if stage == "zero3" else "bf16"}
    more = {"nf4": {"quantize": random.choice(("nf4", "nf4-double"))}, "offload": {"offload": "optimizer"}}
    return entry | more.get(kind, {}) | some(random, 0.3, grad_accum=2) | some(random, 0.3, clip_grad=1.0)


def in_fp8(random, _):
    model = random.choice(LLAMAS + ("phi3_mini_4layers", "glm4_9b_4layers", "aya_8b_4layers", "gemma3_1b_6layers"))
    layout = random.choice(({}, {}, {"shard": "ddp", "world": 2}, {"shard": "fsdp2", "world": 4}))
    entry = case(model, *size(random, 16), random.choice(MODES), fp8=random.choice(("tensorwise", "rowwise"))) | layout
    if layout.get("shard") == "fsdp2":
        entry |= some(random, 0.5, fp8="tensorwise", fp8_all_gather=True)
    else:
        entry |= some(random, 0.3, **AUTOCAST) | some(random, 0.5, optimizer=random.choice(OPTIMIZERS[:-1]))
    return entry | some(random, 0.4, grad_accum=2) | some(random, 0.4, clip_grad=1.0) | some(random, 0.3, hold_output=False)


def with_images(random, _):
    batch, seq = random.choice(((1, 1500), (2, 1024), (1, 2048)))
    return case(IMAGES, batch, seq, random.choice(("none", "full", "every:3")), images=1, **some(random, 0.5, grad_accum=2)) \
        | some(random, 0.5, optimizer=random.choice(("adamw-foreach", "sgd")))


KINDS = (adapted, adapted, adapted, adapted, other_method, other_method, beside_experts, compiled, whole, whole, trainer, trainer,
         trainer, tune, on_deepspeed, on_deepspeed, in_fp8)


def draw(random, model):
    kind = random.choice(KINDS) if random.random() > 0.02 else with_images
    return kind(random, model)


def names_are_there(entry):
    """Parameters' names and blocks of their own, which Muon's, torchtune's and PEFT's of a family ask for."""
    of = entry.get
    model = entry["model"]
    if of("adapter") == "ln-tuning" and model in NEW + OLD or of("adapter", "").startswith("oft") and model in NAMES:
        return False
    return of("optimizer") != "muon" or model in LLAMAS


def is_planned(entry):
    """What is refused by name (docs/exclusions.md), what PyTorch's count of FLOPs ends with an error for, and what no
    user's step can be."""
    of = entry.get
    model, kind = entry["model"], family(entry)
    shared_keys = config_of(model).get("num_key_value_heads") != config_of(model).get("num_attention_heads")
    if of("ac", "").startswith("memory-budget") and of("attn") == "flash" and shared_keys:
        return False
    if of("framework") in TRAINER and of("optimizer") == "sgd-momentum":
        return False
    if entry.get("attn") in ("flash", "cudnn") and kind in EAGER_ONLY + MASKED or of("attn") == "eager" and kind in MASKED:
        return False
    if of("attn") == "eager" and (of("packing") or of("adapter", "").startswith("prefix")):
        return False
    if of("framework") and kind in WRAPPERS + OWN_HEADS or of("packing") and kind in WITH_WINDOWS:
        return False
    if kind in EAGER_ONLY + MASKED and (of("packing") or of("framework") or of("adapter", "").startswith("prefix")):
        return False
    if of("shard") == "ddp" and kind in WRAPPERS and not of("lora"):
        return False
    if of("autocast") and (model in EXPERTS or kind == "nemotron") or of("framework") and kind == "nemotron":
        return False
    return names_are_there(entry) and (of("shard", "")[:4] == "zero" or first_draw_plans(entry))


def blind_finetune_cases():
    for seed, count in DRAWS:
        yield from map(with_base_dtype, distinct(seed, count, LLAMAS + NEW + OLD, draw, is_planned))
