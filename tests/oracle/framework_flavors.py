"""Sizes that frameworks have by name, read from their own tables: writes data/flavors/*.json.

python framework_flavors.py ../../data/flavors            # each framework that is importable
python framework_flavors.py --check ../../data/flavors    # compares; 1 where a file differs

torchtitan 0.2.2: TrainSpec.model_args; torchtune 0.6.1: what each builder hands its component;
litgpt 0.5.13: litgpt.config.configs. A framework that cannot be imported is left as it is, and said.
"""
import argparse
import importlib
import importlib.metadata
import inspect
import json
import pathlib
import sys


def row(family, model, name, **sizes):
    """`family` is transformers' model_type; sizes are named as in src/advise/flavors.cpp."""
    sizes = {"qkv_bias": family == "qwen2", "other_biases": False, **sizes}
    return {"family": family, "model": model, "name": name,
            "sizes": {key: float(value) if isinstance(value, float) else int(value)
                      for key, value in sizes.items()}}


def torchtitan():
    from torchtitan.models.llama3 import llama3_args
    from torchtitan.models.qwen3 import qwen3_args

    def feed_forward(a):  # FeedForward.__init__ of models/llama3/model/model.py
        hidden = int(2 * 4 * a.dim / 3)
        if a.ffn_dim_multiplier is not None:
            hidden = int(a.ffn_dim_multiplier * hidden)
        return a.multiple_of * ((hidden + a.multiple_of - 1) // a.multiple_of)

    for name, a in llama3_args.items():
        if a.attn_type != "sdpa" or name.startswith("debug"):
            continue
        yield row("llama", "llama3", name, layers=a.n_layers, hidden=a.dim, heads=a.n_heads,
                  kv_heads=a.n_kv_heads or a.n_heads, head_dim=a.dim // a.n_heads,
                  intermediate=feed_forward(a), vocab=a.vocab_size, tied=False,
                  rope_theta=float(a.rope_theta), norm_eps=a.norm_eps,
                  rope_factor=float(a.rope_scaling_args.scaling_factor))
    for name, a in qwen3_args.items():
        if a.attn_type != "sdpa" or name.startswith("debug"):
            continue
        experts = {}
        if a.moe_enabled:
            experts = {"experts": a.moe_args.num_experts, "top_k": a.moe_args.top_k,
                       "expert_intermediate": a.moe_inter_dim}
        yield row("qwen3_moe" if a.moe_enabled else "qwen3", "qwen3", name, layers=a.n_layers,
                  hidden=a.dim, heads=a.n_heads, kv_heads=a.n_kv_heads, head_dim=a.head_dim,
                  **({} if a.moe_enabled else {"intermediate": a.hidden_dim}), vocab=a.vocab_size,
                  tied=a.enable_weight_tying, rope_theta=float(a.rope_theta), norm_eps=a.norm_eps,
                  rope_factor=1.0, **experts)


# Component builders by package: family, the name of the one that its builders call, what ties.
TUNE = {"llama2": ("llama", "llama2"), "llama3": ("llama", "llama3"),
        "llama3_1": ("llama", "llama3_1"), "llama3_2": ("llama", "llama3_2"),
        "mistral": ("mistral", "mistral"), "qwen2": ("qwen2", "qwen2"),
        "qwen2_5": ("qwen2", "qwen2"), "gemma": ("gemma", "gemma")}


def torchtune():
    for package, (family, component) in TUNE.items():
        module = importlib.import_module(f"torchtune.models.{package}._model_builders")
        make = getattr(module, component)
        defaults = {k: p.default for k, p in inspect.signature(make).parameters.items()}
        setattr(module, component, lambda **given: given)
        for name in [n for n in vars(module) if n.startswith(package)]:
            builder = getattr(module, name)
            if "tokenizer" in name or "reward" in name or builder.__module__ != module.__name__:
                continue
            a = {**defaults, **builder()}
            hidden = a["intermediate_dim"]
            if hidden is None:
                from torchtune.models.llama3._model_utils import scale_hidden_dim_for_mlp
                hidden = scale_hidden_dim_for_mlp(a["embed_dim"])
            yield row(family, package, name, layers=a["num_layers"], hidden=a["embed_dim"],
                      heads=a["num_heads"], kv_heads=a["num_kv_heads"],
                      head_dim=a.get("head_dim") or a["embed_dim"] // a["num_heads"],
                      intermediate=hidden, vocab=a["vocab_size"],
                      tied=family == "gemma" or bool(a.get("tie_word_embeddings", False)),
                      rope_theta=float(a["rope_base"]), norm_eps=a["norm_eps"],
                      rope_factor=float(a.get("scale_factor", 8 if package == "llama3_1" else 1)),
                      dora="use_dora" in inspect.signature(
                          getattr(module, "lora_" + name)).parameters)
        setattr(module, component, make)


def litgpt():
    from litgpt.config import Config, configs
    for given in configs:
        a = Config(**given)
        hub = a.hf_config
        if a.mlp_class_name != "LLaMAMLP" or a.norm_class_name != "RMSNorm" or not hub:
            continue
        if a.rope_condense_ratio != 1 or a.norm_qk or a.sliding_window_size or a.latent_attention:
            continue
        factor = 1.0
        if a.rope_adjustments:
            if a.rope_adjustments.get("original_max_seq_len") != 8192:
                continue
            factor = float(a.rope_adjustments["factor"])
        family = "qwen2" if a.attn_bias and not a.bias else "llama"
        if a.bias or a.parallel_residual or a.rotary_percentage != 1.0:
            continue
        yield row(family, hub["org"], hub["org"] + "/" + hub["name"], layers=a.n_layer,
                  hidden=a.n_embd, heads=a.n_head, kv_heads=a.n_query_groups,
                  head_dim=a.head_size, intermediate=a.intermediate_size,
                  vocab=a.padded_vocab_size, rope_theta=float(a.rope_base), norm_eps=a.norm_eps,
                  rope_factor=factor)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    failed = False
    for read, version in ((torchtitan, "0.2.2"), (torchtune, "0.6.1"), (litgpt, "0.5.13")):
        name = read.__name__
        try:
            have = importlib.metadata.version(name)
            rows = list(read())
        except (ImportError, importlib.metadata.PackageNotFoundError) as error:
            print(f"{name}: not read ({error})")
            continue
        if have != version:
            print(f"{name}: {have} is installed, the table is of {version}")
            continue
        rows = [json.dumps(r) for r in rows]
        text = (f'{{\n"schema": 1,\n"framework": "{name}",\n"version": "{version}",\n"source": '
                f'"tests/oracle/framework_flavors.py read it from the package",\n"flavors": [\n'
                + ",\n".join(rows) + "\n]\n}\n")
        path = arguments.folder / f"{name}.json"
        if not arguments.check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path}: differs from {name} {version}")
            failed = True
        print(f"{name} {version}: {len(rows)} flavors")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
