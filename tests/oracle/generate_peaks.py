"""Writes generated_peaks.json: the figures of pytorch_peaks.py for more families, sizes and modes.

    generate_peaks.py OUTPUT.json [--only LABEL]

Each case has a config that is a whole Hugging Face config.json. Families whose real size is large are
cut to a few layers, as their names say.
"""

import argparse
import json
import sys
import time

import torch
import transformers

from pytorch_peaks import measure
from training_step import DEFAULTS

TINY = {
    "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512, "tie_word_embeddings": True,
    "rms_norm_eps": 1e-6, "max_position_embeddings": 4096,
}
UNTIED = {"tie_word_embeddings": False}
SLIDING = {"sliding_window": 16, "query_pre_attn_scalar": 16}
TINY_FAMILIES = {
    "llama": TINY,
    "untied": TINY | UNTIED | {"model_type": "llama"},
    "mistral": TINY | UNTIED | {"sliding_window": None},
    "qwen2": TINY,
    "qwen3": TINY,
    "gemma2": TINY | SLIDING | {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    "gemma3": TINY | SLIDING | {
        "model_type": "gemma3_text", "layer_types": ["sliding_attention"] * 3 + ["full_attention"]},
    "phi3": TINY | UNTIED | {"sliding_window": None, "pad_token_id": 0},
    "mixtral": TINY | UNTIED | {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": TINY | UNTIED | {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48},
    "gemma": TINY,
    "smollm3": TINY | {"pad_token_id": 0},
    "granite": TINY | {"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 16.0,
                       "attention_multiplier": 0.0078125},
    "olmo2": TINY | UNTIED,
    "olmo3": TINY | UNTIED | {"sliding_window": 16},
    "olmoe": TINY | UNTIED | {"num_experts": 8, "num_experts_per_tok": 2},
}


def sizes(hidden, intermediate, layers, heads, kv_heads, head_dim, vocab, tied, **more):
    return {
        "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim, "vocab_size": vocab,
        "tie_word_embeddings": tied,
    } | more


REAL = {
    "llama1b": sizes(2048, 8192, 16, 32, 8, 64, 128256, True, model_type="llama"),
    "smollm17b_untied": sizes(2048, 8192, 24, 32, 32, 64, 49152, False, model_type="llama"),
    "mistral7b_8layers": sizes(4096, 14336, 8, 32, 8, 128, 32768, False, model_type="mistral", sliding_window=None),
    "qwen2_05b": sizes(896, 4864, 24, 14, 2, 64, 151936, True, model_type="qwen2"),
    "qwen3_06b": sizes(1024, 3072, 28, 16, 8, 128, 151936, True, model_type="qwen3"),
    "gemma2_2b_8layers": sizes(2304, 9216, 8, 8, 4, 256, 256000, True, model_type="gemma2", sliding_window=4096,
                               query_pre_attn_scalar=256, attn_logit_softcapping=50.0, final_logit_softcapping=30.0),
    "gemma3_1b": sizes(1152, 6912, 26, 4, 1, 256, 262144, True, model_type="gemma3_text", sliding_window=512,
                       query_pre_attn_scalar=256),
    "phi3_mini_8layers": sizes(3072, 8192, 8, 32, 32, 96, 32064, False, model_type="phi3", sliding_window=None,
                               pad_token_id=0),
    "mixtral8x7b_2layers": sizes(4096, 14336, 2, 32, 8, 128, 32000, False, model_type="mixtral",
                                 num_local_experts=8, num_experts_per_tok=2, sliding_window=None),
    "qwen3_30b_a3b_4layers": sizes(2048, 6144, 4, 32, 4, 128, 151936, False, model_type="qwen3_moe",
                                   num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768),
    "gemma_7b_4layers": sizes(3072, 24576, 4, 16, 16, 256, 256000, True, model_type="gemma"),
    "smollm3_3b_8layers": sizes(2048, 11008, 8, 16, 4, 128, 128256, True, model_type="smollm3"),
    "granite31_8b_4layers": sizes(4096, 12800, 4, 32, 8, 128, 49155, True, model_type="granite", embedding_multiplier=12.0,
                                  residual_multiplier=0.22, logits_scaling=16.0, attention_multiplier=0.0078125),
    "olmo2_7b_4layers": sizes(4096, 11008, 4, 32, 32, 128, 100352, False, model_type="olmo2"),
    "olmo3_7b_4layers": sizes(4096, 11008, 4, 32, 32, 128, 100278, False, model_type="olmo3", sliding_window=4096),
    "olmoe_1b_7b_4layers": sizes(2048, 1024, 4, 16, 16, 128, 50304, False, model_type="olmoe", num_experts=64,
                                 num_experts_per_tok=8),
}


def auto_class(config):
    """Of decoders, and of those beside an encoder of images."""
    decoders = transformers.AutoModelForCausalLM
    alone = type(config) in decoders._model_mapping and not hasattr(config, "vision_config")
    return decoders if alone else transformers.AutoModelForImageTextToText


def whole_config(name, values):
    """What transformers would write to config.json."""
    config = transformers.AutoConfig.for_model(**({"model_type": name} | values))
    architecture = auto_class(config)._model_mapping[type(config)].__name__
    return config.to_dict() | {"architectures": [architecture]}


def case(model, values, batch, seq, ac="none", loss="hf", sharding="single", optimizer="fused", **more):
    config = whole_config(model, values)
    if config["model_type"] == "gemma2":
        more = {"attn": "eager"} | more  # transformers has no SDPA for it
    return {"model": model, "config": config, "batch": batch, "seq": seq, "ac": ac, "loss": loss,
            "sharding": sharding, "optimizer": optimizer} | more


def family_cases(name, values, batch, seq, matrix):
    """Of gemma and olmo3 no segments: what transformers gives a block depends on its number. The chunked loss here
    has neither gemma's softcap nor granite's divisor."""
    model_type = values.get("model_type", name)
    by_number = "gemma" in model_type or model_type == "olmo3"
    scaled = "final_logit_softcapping" in values or "logits_scaling" in values
    for ac, loss, sharding in matrix:
        if not (by_number and ac.startswith("seg") or scaled and loss == "chunk"):
            yield case(name, values, batch, seq, ac, loss, sharding)


def every_family():
    tiny = [(ac, loss, "single") for ac in ("none", "full", "seg2", "every2", "selop") for loss in ("hf", "chunk")]
    tiny += [("none", "hf", "fsdp8"), ("full", "chunk", "fsdp8"), ("selop", "hf", "fsdp3")]
    for name, values in TINY_FAMILIES.items():
        yield from family_cases("tiny_" + name, {"model_type": name} | values, 2, 32, tiny)
    real = [("none", "hf", "single"), ("full", "hf", "single"), ("selop", "hf", "single"), ("seg2", "chunk", "single"),
            ("none", "chunk", "single"), ("full", "hf_nokeep", "single"), ("full", "chunk", "fsdp8")]
    for name, values in REAL.items():
        yield from family_cases(name, values, 2, 2048, real)


def every_mode(name, values, batch, seq):
    def make(**more):
        return case(name, values, **({"batch": batch, "seq": seq} | more))

    for ac in ("none", "full", "selop"):
        for loss in ("hf", "chunk"):
            yield make(ac=ac, loss=loss, batch=3, seq=1000)
            yield make(ac=ac, loss=loss, sharding="fsdp3")
        yield make(ac=ac, loss="hf_nokeep", sharding="fsdp8")
        yield make(ac=ac, loss="chunk", grad_accum=2)
        yield make(ac=ac, param_dtype="fp32")
        yield make(ac=ac, attn="eager")
    for ac in ("seg3", "seg4", "every3"):
        yield make(ac=ac)
    for optimizer in ("foreach", "sgd", "sgd_momentum"):
        yield make(ac="full", loss="chunk", optimizer=optimizer)
        yield make(ac="full", loss="chunk", optimizer=optimizer, sharding="fsdp8")
    for loss in ("hf", "hf_nokeep"):
        yield make(grad_accum=2, loss=loss)
    for attn in ("efficient", "math"):
        yield make(attn=attn)
        yield make(attn=attn, ac="full")
    yield make(attn="math", param_dtype="fp32")
    for attn in ("flash", "eager"):
        yield case(name, values | {"attention_dropout": 0.1}, batch, seq, attn=attn)
    for ac in ("none", "full", "seg2"):
        for loss in ("hf", "chunk"):
            yield make(ac=ac, loss=loss, sharding="fsdp8", keep_last_block=True)
            yield make(ac=ac, loss=loss, sharding="fsdp8", param_dtype="fp32",
                       mixed_precision={"param": "bf16", "reduce": "fp32"})
    yield make(sharding="fsdp8", param_dtype="fp32", mixed_precision={"param": "bf16", "reduce": "bf16"})
    for loss in ("hf", "chunk"):
        yield make(ac="seg2", loss=loss, sharding="fsdp8", fsdp_unit="block")
        yield make(ac="full", loss=loss, sharding="fsdp8", grad_accum=2)
        yield make(ac="full", loss=loss, sharding="fsdp8", grad_accum=2, no_sync=True)
    yield make(sharding="fsdp8", param_dtype="fp32", grad_accum=2, mixed_precision={"param": "bf16", "reduce": "fp32"})


def all_cases():
    yield from every_family()
    yield from every_mode("tiny_llama", TINY_FAMILIES["llama"] | {"model_type": "llama"}, 2, 32)
    yield from every_mode("tiny_untied", TINY_FAMILIES["untied"], 2, 32)
    yield from every_mode("llama1b", REAL["llama1b"], 4, 2048)
    for ac in ("none", "full"):  # with masks: sliding windows leave flash attention
        yield case("tiny_gemma3", TINY_FAMILIES["gemma3"], 2, 32, ac, attn="auto")
        yield case("gemma3_1b", REAL["gemma3_1b"], 2, 2048, ac, attn="auto")


def label(entry):
    extra = [f"{key}={json.dumps(entry[key])}" for key in DEFAULTS if key in entry]
    names = ("model", "batch", "seq", "ac", "loss", "sharding", "optimizer")
    return "/".join(str(entry[key]) for key in names) + "".join(" " + item for item in extra)


def write(path, cases):
    """A line a case: the file is for programs, but a diff of it should tell which case moved."""
    source = f"PyTorch {torch.__version__}, transformers {transformers.__version__}, fake tensors"
    with open(path, "w") as file:
        file.write('{"source": ' + json.dumps(source) + ', "cases": [\n')
        file.write(",\n".join(json.dumps(entry) for entry in cases))
        file.write("\n]}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    done = []
    for entry in all_cases():
        if options.only not in label(entry):
            continue
        start = time.time()
        try:
            done.append(entry | measure(entry))
            print(f"{label(entry)}  {done[-1]['peak_bytes']}  {time.time() - start:.0f} s", flush=True)
        except Exception as error:  # one mode that cannot run must not lose the others
            print(f"{label(entry)}  FAILED {type(error).__name__}: {str(error)[:300]}", flush=True)
        write(options.output, done)
    return 0


if __name__ == "__main__":
    sys.exit(main())
