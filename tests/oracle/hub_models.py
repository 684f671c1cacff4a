"""Whether transformers' own classes, made of data/models/hub.json, have the published parameters.

python hub_models.py ../../data/models/hub.json

Each configuration becomes a model on the meta device (transformers 5.23.0); its distinct parameters
are counted and compared with `counted`, less what that count has beside them. Families that
transformers has no code for are named and left out.
"""
import argparse
import json
import logging
import math
import os
import pathlib

os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # noqa: E402
from transformers import AutoConfig  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: E402
from transformers.models.auto.modeling_auto import (  # noqa: E402
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
)

WRAPPERS = ("gemma3", "llama4", "llava", "mistral3", "qwen2_5_vl", "qwen3_vl")


def merge(base, patch):
    """RFC 7386: null takes a field away."""
    for key, value in patch.items():
        if value is None:
            base.pop(key, None)
        elif isinstance(value, dict) and isinstance(base.get(key), dict):
            merge(base[key], value)
        else:
            base[key] = json.loads(json.dumps(value))


def configuration(file, by_id, entry):
    if "like" in entry:
        config = configuration(file, by_id, by_id[entry["like"]])
        merge(config, entry["more"])
        return config
    config = {k: v for k, v in zip(file["columns"], entry["row"]) if v is not None}
    config.update(json.loads(json.dumps(entry.get("more", {}))))
    return config


def with_factors(config):
    """longrope's factors are as many numbers as a head has angles; the file leaves them out."""
    head = config["hidden_size"] // config["num_attention_heads"]
    angles = int(head * config.get("partial_rotary_factor", 1)) // 2
    config["rope_scaling"] |= {"long_factor": [1.0] * angles, "short_factor": [1.0] * angles}
    if config["model_type"] == "phimoe":
        config["rope_scaling"] |= {"long_mscale": 1.0, "short_mscale": 1.0}
        original = config["original_max_position_embeddings"]
        config["rope_scaling"]["original_max_position_embeddings"] = original


def count_of(config):
    """Distinct parameters of the class, and what published counts have beside them."""
    kind = config.pop("model_type")
    made = AutoConfig.for_model(kind, **config)
    classes = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING if kind in WRAPPERS else MODEL_FOR_CAUSAL_LM_MAPPING
    with torch.device("meta"):
        model = classes[type(made)](made)
    model.tie_weights()
    parameters = {id(p): p.numel() for p in model.parameters()}
    beside = {
        "lm_head": lambda: math.prod(model.get_input_embeddings().weight.shape),
        "causal_masks": lambda: made.n_layer * made.n_positions**2,
        "router_biases": lambda: sum(b.numel() for n, b in model.named_buffers() if "bias" in n),
        "missing_positions": lambda: -2 * made.hidden_size,
        "fp8_scales": lambda: made.text_config.num_hidden_layers * 7 * 2,
    }
    return sum(parameters.values()), beside


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    file = json.loads(parser.parse_args().file.read_text())
    logging.disable(logging.CRITICAL)
    by_id = {id_: entry for entry in file["models"] for id_ in entry["ids"].split()}
    equal, left_out, wrong = 0, [], []
    for entry in file["models"]:
        name = entry["ids"].split()[0]
        config = configuration(file, by_id, entry)
        config.pop("quantization_config", None)
        if config["model_type"] not in CONFIG_MAPPING:
            left_out.append(name)
            continue
        if config.get("rope_scaling", {}).get("type") == "longrope":
            with_factors(config)
        source = entry if "counted" in entry else by_id[entry["like"]]
        count, beside = count_of(config)
        count += sum(beside[word]() for word in source.get("beside", "").split())
        if count == source["counted"][1]:
            equal += 1
        else:
            wrong.append(f"{name}: {count}, published {source['counted'][1]}")
    print(f"{equal} configurations have the published parameters; left out: {', '.join(left_out)}")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
