"""Fine-tuning steps that nobody chose: adapters, quantized bases, autocast, optimizers, what a loop holds, Trainers,
drawn by a seeded generator. They are in the planner's words; drawn_finetune_peaks.py builds them.
"""

from drawn_cases import distinct
from emulated_cases import EXPANDABLE, VALUES, case

SEEDS, COUNT = (14, 1414), 50
SIZES = ((1, 512), (1, 777), (1, 1024), (1, 2000), (1, 2048), (2, 509), (2, 640), (2, 1024), (3, 341), (3, 1000), (4, 512),
         (5, 333), (6, 256), (8, 200))
MODES = ("none", "none", "full", "full", "selective", "every:2")
ADAPTED = ("llama1b_4layers", "qwen2_05b_4layers", "qwen3_06b_4layers", "mistral7b_4layers", "smollm17b_untied_4layers",
           "gemma_7b_4layers", "phi3_mini_4layers", "smollm3_3b_4layers", "granite31_8b_4layers", "olmo2_7b_4layers",
           "small_llama")
OTHER_NAMES = ("pythia_14b_4layers", "phi2_4layers", "opt_13b_4layers", "stablelm2_16b_4layers", "gpt2_12layers",
               "starcoder2_3b_4layers")
# Whose targets PEFT does not know, but for all-linear.
UNNAMED = ("phi3_mini_4layers", "granite31_8b_4layers", "smollm3_3b_4layers", "olmo2_7b_4layers", "starcoder2_3b_4layers")
OWN_TARGETS = {"phi3_mini_4layers": "qkv_proj,o_proj", "pythia_14b_4layers": "query_key_value", "phi2_4layers": "q_proj,dense",
               "opt_13b_4layers": "q_proj,fc1", "gpt2_12layers": "c_attn", "starcoder2_3b_4layers": "q_proj,c_fc"}
AUTOCAST = {"param_dtype": "fp32", "autocast": "bf16"}
IN_FP16 = {"param_dtype": "fp32", "autocast": "fp16", "grad_scaler": True}
OPTIMIZERS = ("adamw-foreach", "sgd", "sgd-momentum", "adamw-8bit", "paged-adamw", "paged-adamw-8bit", "lion", "adafactor",
              "muon")
OF_SHARDS = ("adamw-foreach", "sgd")
DDP, FSDP2 = {"shard": "ddp", "world": 8}, {"shard": "fsdp2", "world": 8}
HAND, TRAINER, TUNE = "hf", ("hf-trainer", "trl"), "torchtune"


def family(entry):
    return VALUES[entry["model"]]["model_type"]


def targets(random, model):
    of_its_own = OWN_TARGETS.get(model, random.choice(("q_proj,v_proj", "q_proj,k_proj,v_proj,o_proj", "gate_proj,up_proj,down_proj")))
    chosen = random.choice(("all-linear", "all-linear", of_its_own, None))
    if chosen is None and model in UNNAMED:
        chosen = of_its_own
    return {"lora_targets": chosen} if chosen else {}


def adapters(random, model):
    entry = {"lora": random.choice((4, 8, 16, 16, 32, 64))} | targets(random, model)
    if random.random() < 0.3:
        entry["lora_dropout"] = 0.05
    elif random.random() < 0.2:
        entry["dora"] = True
    if random.random() < 0.5:
        entry["quantize"] = random.choice(("nf4", "nf4", "nf4-double", "int8"))
    return entry


def loop(random):
    """What is about the step, in a loop by hand."""
    entry = {}
    if random.random() < 0.3:
        entry["grad_accum"] = random.choice((2, 3))
    if random.random() < 0.3:
        entry["clip_grad"] = 1.0
    if random.random() < 0.3:
        entry["hold_output"] = False
    if random.random() < 0.2:
        entry |= EXPANDABLE
    if random.random() < 0.3:
        entry["attn"] = random.choice(("flash", "eager"))
    return entry


def adapted_by_hand(random, model):
    batch, seq = random.choice(SIZES)
    layout = random.choice(({}, {}, {}, DDP, FSDP2))
    entry = case(model, batch, seq, random.choice(MODES)) | layout | adapters(random, model) | loop(random)
    if layout == FSDP2:
        entry.setdefault("lora_targets", OWN_TARGETS.get(model, "q_proj,v_proj"))
    if random.random() < 0.4:
        entry["lora_dtype"] = "bf16"
    if "shard" not in layout or layout == DDP:
        entry |= random.choice(({}, {}, AUTOCAST, AUTOCAST | {"param_dtype": "bf16"}, IN_FP16))
        if entry.get("quantize") and entry.get("param_dtype") != "bf16" and random.random() < 0.4:
            entry["kbit_prepare"] = True
    if random.random() < 0.3:
        entry["optimizer"] = random.choice(OF_SHARDS if layout == FSDP2 else OPTIMIZERS[:-1])
    if random.random() < 0.2:
        entry["loss"] = "ce-no-upcast"
    if layout and entry.get("grad_accum") and random.random() < 0.5:
        entry["no_sync"] = True
    return entry


def whole_by_hand(random, model):
    batch, seq = random.choice(SIZES)
    layout = random.choice(({}, {}, {}, DDP, FSDP2))
    entry = case(model, batch, seq, random.choice(MODES)) | layout | loop(random)
    if layout != FSDP2:
        entry |= random.choice(({}, AUTOCAST, AUTOCAST | {"param_dtype": "bf16"}, IN_FP16))
    kind = random.choice(("optimizer", "optimizer", "masters", "offload", "ema", "packing", "output"))
    if kind == "optimizer":
        entry["optimizer"] = random.choice(OF_SHARDS if layout == FSDP2 else OPTIMIZERS)
    elif kind == "masters":
        entry |= {"master_weights": True, "param_dtype": "bf16"}
    elif kind == "offload":
        entry["offload"] = random.choice(("optimizer", "gradients", "activations"))
    elif kind == "ema":
        entry["ema"] = True
    elif kind == "packing":
        entry |= {"packing": random.choice((1, 3, 8)), "attn": random.choice(("flash", "flash", "auto"))}
    else:
        entry |= {"output_dtype": "fp32", "loss": random.choice(("ce", "ce-no-upcast"))}
    if layout and entry.get("grad_accum") and random.random() < 0.5:
        entry["no_sync"] = True
    return entry


def trainer(random, model):
    batch, seq = random.choice(SIZES)
    entry = {"model": model, "batch": batch, "seq": seq, "framework": random.choice(TRAINER),
             "ac": random.choice(("none", "full"))}
    if random.random() < 0.7:
        entry |= adapters(random, model)
    if random.random() < 0.3:
        entry["param_dtype"] = "bf16"
    if random.random() < 0.25 and entry["framework"] == "hf-trainer":
        entry["autocast"] = "fp16"
    if random.random() < 0.3:
        entry["optimizer"] = random.choice(OPTIMIZERS[:-1])
    if random.random() < 0.3:
        entry["grad_accum"] = random.choice((2, 4))
    if random.random() < 0.2:
        entry |= {"packing": random.choice((3, 8)), "attn": "flash"}
    if random.random() < 0.2 and entry["framework"] == "trl":
        entry["offload"] = "activations"
    return entry


def tune(random, model):
    batch, seq = random.choice([size for size in SIZES if size[1] % 8 == 0])
    entry = case(model, batch, seq, random.choice(("full", "full", "none")), "chunked-logits:8", framework=TUNE,
                 transformer_impl="hf")
    entry |= random.choice(({}, FSDP2))
    if random.random() < 0.5:
        entry |= {"lora": random.choice((8, 16, 64)), "lora_targets": "q_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"}
    if random.random() < 0.3:
        entry["grad_accum"] = 2
    if random.random() < 0.3:
        entry["optimizer"] = "adamw-foreach"
    if random.random() < 0.2:
        entry["offload"] = "activations"
    return entry


def draw(random, model):
    return random.choice((adapted_by_hand, adapted_by_hand, whole_by_hand, trainer, tune))(random, model)


def is_planned(entry):
    """What is refused by name (docs/exclusions.md), and what no user's step can be."""
    of = entry.get
    quantized, sharded, fp16 = of("quantize", "none"), of("shard") == "fsdp2", of("autocast") == "fp16"
    if family(entry) == "gpt2" and (quantized != "none" or of("lora", 0) and of("framework") == TUNE):
        return False
    if of("framework") == TUNE and of("lora") and entry["model"] in OWN_TARGETS:
        return False  # the recipe's names
    if of("dora") and (of("ac") == "selective" or quantized in ("int8", "nf4-double") or quantized != "none" and sharded):
        return False
    if quantized == "int8" and (sharded or of("packing")) or quantized != "none" and fp16:
        return False
    if fp16 and (of("param_dtype") == "bf16" or of("lora_dtype") == "bf16" or of("master_weights") or of("optimizer") == "muon"):
        return False
    if of("optimizer") == "muon" and entry["model"] not in ADAPTED:
        return False
    if of("packing") and (family(entry) in ("stablelm", "opt", "gpt2", "starcoder2")):
        return False
    offload = of("offload", "none")
    if offload == "activations":
        unlike = of("world", 1) > 1 or of("packing") or of("ac") not in ("none", "full")
        adapted = of("lora") and (of("framework", HAND) == HAND or of("ac") != "full" or of("dora") or quantized == "int8")
        return not (unlike or adapted or of("autocast") and of("ac") == "none")
    if offload != "none":
        return not (of("world", 1) > 1 or of("clip_grad") or of("autocast") or of("grad_accum", 1) > 1)
    return not (of("ema") and sharded)


def with_base_dtype(entry):
    """Of adapters in transformers' Trainer the base was in fp32, which is said, as a checkpoint's own is bf16."""
    of = entry.get
    unsaid = of("lora") and "param_dtype" not in entry and of("autocast") != "fp16" and not of("shard", "").startswith("zero")
    return entry | {"param_dtype": "fp32"} if of("framework") == "hf-trainer" and unsaid else entry


def drawn_finetune_cases():
    for seed in SEEDS:
        yield from map(with_base_dtype, distinct(seed, COUNT, ADAPTED + OTHER_NAMES, draw, is_planned))
