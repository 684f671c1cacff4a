"""The cases of loop_peaks.json: models, and the planner's options."""

import json
import os
import random

from generate_peaks import sizes


def with_case(path, cases, model, words, figures):
    """The cases that the file has, in the order of `cases`, and this one as it was measured now."""
    kept = {}
    if os.path.exists(path):
        with open(path) as file:
            kept = {(c["model"], c["options"]): c for c in json.load(file)["cases"]}
    kept[model, words] = {"model": model, "options": words} | figures
    return [kept[case] for case in cases if case in kept]


def of(model_type, *figures, **more):
    return sizes(*figures, model_type=model_type, max_position_embeddings=8192, **more)


MODELS = {
    "llama": of("llama", 2048, 8192, 16, 32, 8, 64, 128256, True),
    "untied": of("llama", 1024, 3072, 4, 16, 16, 64, 32768, False),
    "mistral": of("mistral", 1024, 3584, 4, 16, 4, 64, 32768, False, sliding_window=None),
    "qwen2": of("qwen2", 896, 4864, 4, 14, 2, 64, 151936, True),
    "qwen3": of("qwen3", 1024, 3072, 4, 16, 8, 128, 151936, True),
    "gemma": of("gemma", 1024, 8192, 4, 8, 8, 128, 128000, True),
    "gemma2": of("gemma2", 1152, 4608, 4, 8, 4, 128, 128000, True, sliding_window=4096, query_pre_attn_scalar=128,
                    attn_logit_softcapping=50.0, final_logit_softcapping=30.0),
    "phi3": of("phi3", 1536, 4096, 4, 16, 16, 96, 32064, False, sliding_window=None, pad_token_id=0),
    "olmo2": of("olmo2", 2048, 5504, 4, 16, 16, 128, 100352, False),
    "granite": of("granite", 2048, 6400, 4, 16, 4, 128, 49155, True, embedding_multiplier=12.0,
                     residual_multiplier=0.22, logits_scaling=16.0, attention_multiplier=0.0078125),
    "smollm3": of("smollm3", 2048, 5504, 4, 16, 4, 128, 128256, True, pad_token_id=0),
}
FAMILIES = [name for name in MODELS if name != "llama"]
OPTIMIZERS = ["adamw-foreach", "sgd", "sgd-momentum", "adamw-8bit", "paged-adamw", "paged-adamw-8bit", "lion",
              "adafactor", "muon"]


def shape(name):
    return "--attn eager --batch 2 --seq 512" if name == "gemma2" else "--batch 2 --seq 2048"


def autocast():
    for name in MODELS:
        for ac in ("none", "full", "selective"):
            if not (name == "gemma2" and ac == "selective"):
                yield name, f"{shape(name)} --ac {ac} --autocast bf16"
    yield "llama", "--batch 4 --ac every:2 --autocast bf16"
    yield "llama", "--batch 3 --seq 1000 --autocast bf16"
    yield "llama", "--batch 2 --grad-accum 2 --autocast bf16"
    yield "llama", "--batch 2 --grad-accum 3 --ac full --autocast bf16 --no-hold-output"
    yield "llama", "--batch 2 --param-dtype bf16 --autocast bf16"
    for name in ("untied", "qwen2", "mistral"):
        yield name, f"{shape(name)} --autocast bf16 --no-hold-output"
        yield name, f"{shape(name)} --autocast bf16 --attn eager --seq 512"


def loop():
    for name in ("llama", "untied", "qwen3"):
        yield name, f"{shape(name)} --clip-grad 1.0"
        yield name, f"{shape(name)} --ac full --clip-grad 1.0 --autocast bf16 --optimizer sgd"
        yield name, f"{shape(name)} --output-dtype fp32"
        yield name, f"{shape(name)} --output-dtype fp32 --autocast bf16 --ac full"
        yield name, f"{shape(name)} --loss ce-no-upcast"
        yield name, f"{shape(name)} --loss ce-no-upcast --no-hold-output --ac full"
        yield name, f"{shape(name)} --loss chunked-logits:8"
        yield name, f"{shape(name)} --loss chunked-logits:8 --no-hold-output --ac full"
        yield name, "--batch 1 --seq 2048 --loss chunked-logits:4 --no-hold-output --ac full --optimizer sgd"
        yield name, "--batch 1 --seq 2048 --loss chunked-logits:8 --autocast bf16 --no-hold-output"
        yield name, f"{shape(name)} --ema"
        yield name, f"{shape(name)} --optimizer-in-backward"
        yield name, f"{shape(name)} --ac full --optimizer-in-backward --no-hold-output"


def optimizers():
    for name in ("llama", "untied", "qwen2"):
        for optimizer in OPTIMIZERS:
            if name != "qwen2":
                yield name, f"--batch 1 --seq 256 --ac full --no-hold-output --optimizer {optimizer}"
            yield name, f"--batch 1 --seq 256 --ac full --no-hold-output --autocast bf16 --optimizer {optimizer}"


def compiled():
    """torchao's update is compiled: a case takes a minute."""
    yield "untied", "--batch 1 --seq 256 --ac full --no-hold-output --optimizer adamw-8bit-torchao"


def ranks():
    for name in ("llama", "untied"):
        yield name, f"{shape(name)} --world 8 --shard ddp --autocast bf16"
        yield name, f"{shape(name)} --world 8 --shard ddp --autocast bf16 --ac full --clip-grad 1.0"


def trainer():
    """Reserved memory is of the Trainer's whole life, its set-up included."""
    for name in ("llama", "untied", "qwen2"):
        for more in ("", " --ac full", " --grad-accum 2", " --param-dtype bf16", " --ac full --optimizer adamw-8bit",
                     " --ac full --optimizer adafactor"):
            yield name, f"--framework hf-trainer --batch 2 --seq 1024{more}"


def trainer_in_fp16():
    for name in ("llama", "untied", "qwen2"):
        for more in ("", " --ac full", " --grad-accum 2", " --lora 16"):
            yield name, f"--framework hf-trainer --batch 2 --seq 1024 --autocast fp16{more}"


QLORA = "--lora 16 --quantize nf4"
ALL = "--lora-targets all-linear"
WIDE = "--param-dtype fp32"


def trainer_with_adapters():
    for name in ("llama", "untied", "qwen2", "qwen3"):
        for more in (f"--lora 16 {WIDE}", f"--lora 16 {ALL} {WIDE}", f"--lora 16 {ALL} --ac full {WIDE}",
                     f"{QLORA} {ALL} --ac full {WIDE}", f"--lora 16 {ALL} --param-dtype bf16", f"--lora 16 {ALL} --ac full"):
            yield name, f"--framework hf-trainer --batch 2 --seq 1024 {more}"


def sft_trainer():
    for name in ("llama", "untied", "qwen2", "qwen3", "mistral", "gemma", "granite", "smollm3"):
        named = " --lora-targets q_proj,v_proj" if name in ("granite", "smollm3") else ""
        for more in ("", " --ac none", f" --lora 16{named}", f" --lora 16 {ALL} --ac none", f" {QLORA}{named}",
                     f" {QLORA} {ALL}", f" {QLORA} {ALL} --ac none"):
            yield name, f"--framework trl --batch 2 --seq 1024{more}"
    for name in ("llama", "qwen2"):
        for more in (f" --lora 16 {ALL} --param-dtype bf16", f" {QLORA} {ALL} --param-dtype bf16",
                     f" --lora 16 --quantize nf4-double {ALL}", f" --lora 16 --quantize int8 {ALL}",
                     f" {QLORA} {ALL} --grad-accum 4", " --param-dtype bf16"):
            yield name, f"--framework trl --batch 2 --seq 1024{more}"
        yield name, f"--framework trl --batch 4 --seq 2048 {QLORA}"
        yield name, f"--framework trl --batch 3 --seq 1000 --lora 16 {ALL}"


def packed():
    for name in ("llama", "qwen2", "qwen3"):
        for more in ("--framework trl", "--framework trl --ac none", "--framework trl --lora 16", "--framework hf-trainer",
                     "--framework hf-trainer --ac full", f"--framework hf-trainer --lora 16 {WIDE}"):
            yield name, f"{more} --batch 2 --seq 1024 --packing 8 --attn flash"
        yield name, "--framework trl --batch 4 --seq 1024 --packing 32 --attn flash --param-dtype bf16"
        yield name, "--framework trl --batch 2 --seq 512 --packing 4"
        for more in (f"nf4 {ALL}", "nf4", f"nf4 {ALL} --ac none", f"nf4-double {ALL}", f"nf4 {ALL} --param-dtype bf16"):
            yield name, f"--framework trl --lora 16 --batch 2 --seq 1024 --packing 8 --attn flash --quantize {more}"


def adapted_experts():
    """By both Trainers; autocast has bf16 experts, as PyTorch's grouped products are not part of it."""
    for name, experts in (("mixtral", "w1,w2,w3"), ("qwen3_moe", "gate_proj,up_proj,down_proj")):
        for more in (f"--framework trl --lora 16 {ALL}", f"--framework trl --lora 8 --lora-targets q_proj,v_proj,{experts} --ac none",
                     f"--framework trl {QLORA} {ALL}", f"--framework hf-trainer --lora 16 {ALL}"):
            yield name, f"{more} --batch 2 --seq 1024 --param-dtype bf16"


def on_deepspeed():
    """A process each (--only), as an engine leaves hooks behind; so none is a part of another's name."""
    for stage in ("zero1", "zero2"):
        for name in ("untied", "qwen2"):
            yield name, f"--world 2 --framework trl --shard {stage} --batch 3 --seq 1000"
            yield name, f"--world 2 --framework trl --shard {stage} --batch 2 --seq 1024 --lora 16 {ALL}"
            yield name, f"--world 2 --framework trl --shard {stage} --batch 2 --seq 1024 {QLORA}"
            yield name, f"--world 2 --framework hf-trainer --shard {stage} --batch 2 --seq 1024 --lora 16"
        yield "untied", f"--world 2 --framework trl --shard {stage} --batch 2 --seq 1024 --grad-accum 2"
        yield "llama", f"--world 2 --framework trl --shard {stage} --batch 1 --seq 2048 --lora 16"
        yield "llama", f"--world 2 --framework hf-trainer --shard {stage} --batch 1 --seq 2048 --ac full"


BALANCED = ["mixtral", "qwen3_moe", "olmoe", "qwen2_moe", "phimoe", "gpt_oss"]


def balanced_experts(count=36):
    """With the routers' auxiliary loss: SFTTrainer adds it to every class that has one, Trainer where the configuration asks
    for it. Drawn, measured before any was planned."""
    draw = random.Random(53)
    for number in range(count):
        trainer = "hf-trainer" if number % 3 == 2 else "trl"
        name = draw.choice(BALANCED if trainer == "trl" else [f"{n}_balanced" for n in BALANCED])
        words = [f"--framework {trainer} --batch {draw.choice('1234')} --seq {draw.choice([512, 768, 1000, 1536, 2048])}",
                 "--param-dtype bf16"]
        if draw.random() < 0.4:
            words += ["--ac none" if trainer == "trl" else "--ac full"]
        if draw.random() < 0.25:
            words += ["--grad-accum 2"]
        if draw.random() < 0.3:
            words += [f"--lora {draw.choice([8, 16, 64])} --lora-targets q_proj,v_proj"]
        if draw.random() < 0.2:
            words += [f"--optimizer {draw.choice(['sgd', 'adafactor', 'adamw-foreach'])}"]
        if name != "phimoe":  # TRL reads a num_experts that its configuration has not: an AttributeError
            yield name, " ".join(words)


def router_loss_by_hand():
    for name in ("phimoe", "mixtral", "qwen3_moe"):
        for more in ("--router-aux-loss off", "--router-aux-loss off --ac none"):
            yield name, f"--framework trl --batch 2 --seq 1024 --param-dtype bf16 {more}"
    for name in ("phimoe", "mixtral", "olmoe", "qwen3_moe"):
        yield name, f"--framework hf-trainer --batch 2 --seq 1024 --param-dtype bf16 --ac full --router-aux-loss on"
    yield "mixtral_balanced", "--framework hf-trainer --batch 2 --seq 1024 --param-dtype bf16 --router-aux-loss off"


def once(cases):
    return list(dict.fromkeys(cases))


CASES = [*autocast(), *loop(), *optimizers(), *trainer(), *trainer_in_fp16(), *trainer_with_adapters(), *sft_trainer(), *packed(), *compiled(), *ranks(), *on_deepspeed(), *adapted_experts(), *once(balanced_experts()), *router_loss_by_hand()]
MODELS |= {
    "mixtral": of("mixtral", 1024, 3584, 4, 16, 4, 64, 32768, False, num_local_experts=8, num_experts_per_tok=2,
                  sliding_window=None),
    "qwen3_moe": of("qwen3_moe", 1024, 3072, 4, 16, 4, 64, 32768, False, num_experts=32, num_experts_per_tok=4,
                    moe_intermediate_size=512, norm_topk_prob=True),
    "glm4_moe": of("glm4_moe", 1024, 3072, 4, 16, 4, 64, 32768, False, n_routed_experts=16, num_experts_per_tok=4,
                   moe_intermediate_size=512, n_shared_experts=1, first_k_dense_replace=1),
    "olmoe": of("olmoe", 1024, 1024, 4, 16, 16, 64, 50304, False, num_experts=16, num_experts_per_tok=4),
    "qwen2_moe": of("qwen2_moe", 1024, 2816, 4, 16, 16, 64, 151936, False, num_experts=16, num_experts_per_tok=4,
                    moe_intermediate_size=704, shared_expert_intermediate_size=2816),
    "phimoe": of("phimoe", 1024, 1792, 4, 16, 4, 64, 32064, False, num_local_experts=16, num_experts_per_tok=2),
    "gpt_oss": of("gpt_oss", 1024, 1024, 4, 16, 4, 64, 100352, False, num_local_experts=16, num_experts_per_tok=4,
                  sliding_window=128),
}
MODELS |= {f"{name}_balanced": MODELS[name] | {"output_router_logits": True} for name in BALANCED}
