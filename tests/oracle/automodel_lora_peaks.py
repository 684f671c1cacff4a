"""Peaks and launches of steps with NeMo AutoModel's adapters on the emulated device.

    PYTHONPATH=nemo_automodel-0.5.0 ac-advisor dryrun --world N --output /dev/null -- \\
        python automodel_lora_peaks.py automodel_lora_peaks.json

As emulated_peaks.py; linear layers are AutoModel 0.5.0's LinearLoRA, put in their place by its apply_lora_to_linear_modules
as its infrastructure.py does: on the meta device where ranks shard, else over a base that is there already, whose MLPs it
then makes one function each (_peft/lora_mlp.py, install_fused_lora_mlp).
"""

import random
import sys

from nemo_automodel.components._peft.lora import PeftConfig, apply_lora_to_linear_modules

import adapter_step
import automodel_cp_peaks  # noqa: F401  its models
import emulated_peaks
import tp_lora_peaks
import training_step
from emulated_cases import EXPANDABLE, case

MODELS = ("llama1b_4layers", "qwen2_05b_4layers", "qwen3_06b_4layers", "mistral7b_4layers", "smollm17b_untied_4layers",
          "phi3_mini_4layers", "gemma3_1b_6layers", "qwen3_moe_32_experts_3layers")
QV = "q_proj,v_proj"


def drawn(seed, count):
    draw = random.Random(seed)
    for number in range(count):
        model = MODELS[number % len(MODELS)]
        batch, seq = draw.choice(((1, 4096), (2, 2048), (2, 1024), (1, 8192), (3, 1000), (4, 512)))
        ac = draw.choice(("none", "none", "full", "grouped:2"))
        shard = draw.choice(("none", "none", "ddp", "fsdp2", "fsdp2", "hsdp:4"))
        targets = draw.choice(("all-linear", "all-linear", QV))
        more = {"framework": "automodel", "kernels": "eager", "ac_scope": "block", "attn": "flash", "keep_last_block": False,
                "input_require_grads": "off", "lora": draw.choice((8, 16, 64)), "lora_dtype": "bf16", "shard": shard,
                "lora_targets": "all-linear" if model == "phi3_mini_4layers" else targets,
                "optimizer": draw.choice(("adamw", "adamw-foreach"))}
        if shard != "none":
            more["world"] = 8
        if draw.random() < 0.25:
            more["lora_dropout"] = 0.1
        if draw.random() < 0.2:
            more["grad_accum"] = 2
        if draw.random() < 0.15:
            more |= EXPANDABLE
        if shard == "none" and model != "qwen3_moe_32_experts_3layers" and draw.random() < 0.4:
            more["quantize"] = draw.choice(("nf4", "nf4-double"))
        yield case(model, batch, seq, ac, **more)


def cases():
    return list({emulated_peaks.label(entry): entry for entry in drawn("AutoModel's adapters", 32)}.values())


def adapted(model, entry):
    """In place; its base is frozen."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    targets = entry["lora_targets"]
    names = ["*_proj"] if targets == "all-linear" else [f"*{name}" for name in targets.split(",")]
    config = PeftConfig(target_modules=names, dim=entry["lora"], alpha=2 * entry["lora"],
                        dropout=entry.get("lora_dropout", 0.0), lora_dtype=training_step.DTYPES[entry["lora_dtype"]])
    apply_lora_to_linear_modules(model, config, skip_freeze=True)
    return model


def base_of(entry):
    model = tp_lora_peaks.plain(entry)
    if entry.get("quantize", "none") != "none":
        adapter_step.quantize(model, entry["quantize"])
        adapter_step.materialize(model)
    elif entry["shard"] in ("none", "ddp"):
        emulated_peaks.on_device(model)
    return model


def build(entry, on_loss):
    model = adapted(base_of(entry), entry)
    blocks = training_step.blocks_of(model)
    training_step.checkpoint_blocks(model, emulated_peaks.ac_of(entry))
    step = training_step.Step(model, "hf", on_loss)
    if entry["shard"] == "none":
        return step, step
    if entry["shard"] == "ddp":
        return step, emulated_peaks.data_parallel(step, entry)
    return step, emulated_peaks.parallel(step, blocks, entry)


def measure(entry):
    return emulated_peaks.measure(entry, build)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(cases(), measure, __doc__))
