"""Peaks and launches of tensor-parallel steps with NeMo AutoModel's adapters on the emulated device.

    ac-advisor dryrun --world N --output /dev/null -- python tp_lora_peaks.py tp_lora_peaks.json [--only LABEL] [--again]

As tp_peaks.py; a case has its keys, and lora and lora_targets. Linear layers are AutoModel 0.5.0's LinearLoRA, and the
styles of the same layout its own (translate_to_lora).
"""

import sys

from nemo_automodel.components._peft.lora import PeftConfig, apply_lora_to_linear_modules
from nemo_automodel.components.distributed.parallel_styles import translate_to_lora

import emulated_peaks
import tp_peaks
import tp_step
from emulated_cases import case
from tp_cases import MIXED, alone, sharded
from training_step import DTYPES

ALL = {"lora": 16, "lora_targets": "all-linear", "lora_dtype": "bf16", "input_require_grads": "off"}
QV = ALL | {"lora": 8, "lora_targets": "q_proj,v_proj"}
MODELS = ("llama1b_4layers", "smollm17b_untied_4layers", "qwen3_06b_4layers", "mistral7b_4layers")


def cases():
    for model in MODELS:
        for ac in ("none", "full"):
            yield case(model, 2, 2048, ac, **alone(2), **ALL)
            yield case(model, 2, 2048, ac, **sharded(8, 2), **ALL)
        yield case(model, 1, 2048, "selective", **sharded(8, 4), **QV)
    for ac in ("none", "full"):
        yield case("llama1b_4layers", 3, 1000, ac, **alone(4), **QV)
        yield case("llama1b_4layers", 2, 1024, ac, **sharded(8, 2), **ALL, grad_accum=2)
        yield case("mistral7b_4layers", 2, 1024, ac, **sharded(8, 2), **ALL | MIXED | {"lora_dtype": "fp32"})
    yield case("smollm17b_untied_4layers", 2, 1024, "selective", **alone(2), **ALL)
    yield case("smollm17b_untied_4layers", 2, 1024, "full", **alone(2), **ALL, optimizer="adamw-foreach")
    yield case("smollm17b_untied_4layers", 2, 1024, "full", **alone(2), **ALL, clip_grad=1.0)
    yield case("qwen3_06b_4layers", 2, 1024, "none", **sharded(8, 2), **ALL, clip_grad=1.0)
    yield case("llama8b", 1, 8192, "full", **sharded(8, 2), **ALL)


plain = emulated_peaks.model_of


def adapted(model, entry):
    """In place; its base is frozen."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    targets = entry["lora_targets"]
    names = "*_proj" if targets == "all-linear" else ",".join(f"*{name}" for name in targets.split(","))
    config = PeftConfig(target_modules=names.split(","), dim=entry["lora"], alpha=2 * entry["lora"],
                        lora_dtype=DTYPES[entry["lora_dtype"]])
    apply_lora_to_linear_modules(model, config, skip_freeze=True)
    return model


def model_of(entry):
    """On the meta device."""
    return adapted(plain(entry), entry)


def translated(style):
    return lambda *args, **kwargs: translate_to_lora(style(*args, **kwargs))


emulated_peaks.model_of = model_of
for name in ("ColwiseParallel", "RowwiseParallel", "SequenceParallel"):
    setattr(tp_step, name, translated(getattr(tp_step, name)))
tp_step.HEADS = translate_to_lora(tp_step.HEADS)

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), tp_peaks.measure, __doc__))
