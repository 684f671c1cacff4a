"""Writes trained_parts.json: what ms-swift and LLaMA-Factory train of models with an encoder of images, by their own code over models on
the meta device, for draws of the keys that say it.

    ac-advisor dryrun --output /dev/null -- python trained_parts.py trained_parts.json --tool ms-swift        # with ms-swift 4.6.0 on PYTHONPATH
    ac-advisor dryrun --output /dev/null -- python trained_parts.py trained_parts.json --tool llamafactory    # with llamafactory 0.9.5 on it
"""

import argparse
import json
import os
import random
import types

import torch
import transformers

import vision_cases  # noqa: F401
from emulated_cases import config_of

MODELS = ("qwen25_vl_3b_4layers", "qwen3_vl_4b_4layers", "tiny_qwen2_5_vl_images", "tiny_qwen3_vl_images")
KEYS = {"ms-swift": ("freeze_vit", "freeze_aligner", "freeze_llm"),
        "llamafactory": ("freeze_vision_tower", "freeze_multi_modal_projector", "freeze_language_model")}
TARGETS = (None, None, ["q_proj", "v_proj"], ["gate_proj", "up_proj", "down_proj"], ["qkv", "q_proj"])


def drawn(tool, count=24):
    draw = random.Random(f"trained {tool}")
    for n in range(count):
        words = {key: draw.random() < 0.5 for key in KEYS[tool]}
        adapters = n % 2 == 1
        words["tuner_type" if tool == "ms-swift" else "finetuning_type"] = "lora" if adapters else "full"
        if adapters:
            words["lora_rank"] = draw.choice((4, 8))
            if (targets := draw.choice(TARGETS)) is not None:
                words["target_modules" if tool == "ms-swift" else "lora_target"] = targets
        yield MODELS[n // 2 % len(MODELS)], words


def model_of(name):
    with torch.device("meta"):
        return transformers.AutoModelForImageTextToText.from_config(transformers.AutoConfig.for_model(**config_of(name)))


def by_swift(name, words):
    from swift.arguments import SftArguments
    from swift.model.model_meta import MODEL_MAPPING
    from swift.pipelines.train.tuner import TunerMixin
    import tempfile
    model = model_of(name)
    kind = model.config.model_type
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(model.config.to_dict(), file, default=str)
        args = SftArguments(model=folder, model_type=kind, template=kind, dataset=["unused"], output_dir=folder,
                            torch_dtype="bfloat16", check_model=False, add_version=False, **words)
        model.model_meta, model.model_info = args.model_meta, args.model_info
        assert MODEL_MAPPING[kind].model_arch
        return TunerMixin.prepare_model(args, model)


def by_llamafactory(name, words):
    os.environ["DISABLE_VERSION_CHECK"] = "1"
    import llamafactory_peaks  # noqa: F401  what its packages want of the others
    from llamafactory.model import adapter
    from llamafactory.hparams import FinetuningArguments
    model = model_of(name)
    finetuning = FinetuningArguments(**{"lora_target": ["all"]} | words)
    loaded = types.SimpleNamespace(quantization_bit=None, adapter_name_or_path=None, use_unsloth=False, use_kt=False,
                                   resize_vocab=False)
    return adapter.init_adapter(model.config, model, loaded, finetuning, is_trainable=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--tool", choices=list(KEYS), required=True)
    arguments = parser.parse_args()
    cases = []
    if os.path.exists(arguments.output):
        with open(arguments.output) as file:
            cases = [c for c in json.load(file)["draws"] if c["tool"] != arguments.tool]
    for name, words in drawn(arguments.tool):
        draw = {"tool": arguments.tool, "model": name, "training": words}
        try:
            model = (by_swift if arguments.tool == "ms-swift" else by_llamafactory)(name, words)
            trained = [p for p in model.parameters() if p.requires_grad]
            draw |= {"tensors": len(trained), "elements": sum(p.numel() for p in trained)}
        except Exception as error:
            draw["error"] = f"{type(error).__name__}: {error}"[:100]
        print(draw, flush=True)
        cases.append(draw)
    models = {name: config_of(name) for name in MODELS}
    with open(arguments.output, "w") as file:
        file.write('{"models": {\n' + ",\n".join(f"{json.dumps(n)}: {json.dumps(c)}" for n, c in models.items()))
        file.write('\n}, "draws": [\n' + ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")


main()
