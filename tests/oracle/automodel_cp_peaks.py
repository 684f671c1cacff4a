"""Peaks and launches of one rank's steps of NeMo AutoModel's context parallelism, on the emulated device.

    PYTHONPATH=nemo_automodel-0.5.0 ac-advisor dryrun --world N --rank R --output /dev/null -- \\
        python automodel_cp_peaks.py automodel_cp_peaks.json

As cp_peaks.py; sequences are split and attention made a ring by AutoModel 0.5.0's own functions (components/distributed/
cp_utils.py), and its adapters are LinearLoRA. It asks transformers for SDPA whatever was asked for, by flash attention
(_transformers/kernel_patches.py). transformers makes its masks from the positions of a rank's two chunks, and hooks of
AutoModel's drop them, windows with them, and ask for causality.
"""

import gc
import os
import random
import sys

import torch
import transformers
from nemo_automodel.components.distributed.cp_utils import attach_context_parallel_hooks

import cp_peaks
import cp_step
import emulated_cases
import emulated_peaks
import optimizer_peaks  # noqa: F401: its optimizers clip
import tp_lora_peaks
import training_step
from automodel_step import run_step
from cp_cases import MIXED, make, rank_of
from emulated_cases import EXPANDABLE, config_of
from generate_peaks import auto_class, sizes

emulated_cases.VALUES |= {
    "gemma3_4b_6layers": sizes(2560, 10240, 6, 8, 4, 256, 262208, True, model_type="gemma3_text", sliding_window=1024),
    "phi3_mini_window_4layers": emulated_cases.VALUES["phi3_mini_4layers"] | {"sliding_window": 2047},
    "mistral7b_window_4layers": emulated_cases.VALUES["mistral7b_4layers"] | {"sliding_window": 1024},
    "qwen3_moe_32_experts_3layers": sizes(2048, 6144, 3, 32, 4, 128, 65536, False, model_type="qwen3_moe",
                                          num_experts=32, num_experts_per_tok=4, moe_intermediate_size=768,
                                          norm_topk_prob=True),
    "mixtral_8_experts_2layers": sizes(2048, 5632, 2, 16, 8, 128, 32000, False, model_type="mixtral",
                                       num_local_experts=8, num_experts_per_tok=2, sliding_window=None),
}
MODELS = ("gemma2_2b_4layers", "gemma3_4b_6layers", "phi3_mini_4layers", "phi3_mini_window_4layers",
          "qwen3_moe_32_experts_3layers", "mixtral_8_experts_2layers", "mistral7b_window_4layers", "llama1b_4layers",
          "gemma3_1b_6layers", "qwen2_05b_4layers")
EXPERTS = ("qwen3_moe_32_experts_3layers", "mixtral_8_experts_2layers")
ALL = {"lora": 16, "lora_targets": "all-linear", "lora_dtype": "bf16", "input_require_grads": "off"}
QV = ALL | {"lora": 8, "lora_targets": "q_proj,v_proj"}
DEFAULTS = {"cp_method": "allgather", "fsdp_unit": "block", "attn": "flash"}


def drawn(count, seed):
    draw = random.Random(seed)
    for number in range(count):
        model = MODELS[number % len(MODELS)]
        cp = draw.choice((2, 2, 4))
        rank = draw.choice((0, cp - 2, cp - 1))
        batch, seq = draw.choice(((1, 4096), (2, 2048), (2, 4096), (1, 8192), (3, 2000)))
        more = {"framework": "automodel", "attn": "flash", "kernels": "eager", "ac_scope": "block",
                "keep_last_block": False, "optimizer": "adamw"}
        more["world"] = draw.choice((cp, 8))
        if more["world"] == 8 and draw.random() < 0.2:
            more["shard"] = "hsdp:4"
        if draw.random() < 0.3:
            more |= MIXED
        if draw.random() < 0.2:
            more["grad_accum"] = 2
        if draw.random() < 0.2:
            more["hold_output"] = False
        if draw.random() < 0.3:
            more["optimizer"] = "adamw-foreach"
        if draw.random() < 0.25:
            more["clip_grad"] = 1.0
        if draw.random() < 0.15:
            more |= EXPANDABLE
        if model not in EXPERTS and draw.random() < 0.35:
            more |= (QV if model not in ("phi3_mini_4layers", "phi3_mini_window_4layers") else ALL)
            more["lora_dtype"] = more.get("param_dtype", "bf16")
        # its adapters change in place what a selective checkpoint keeps
        ac = draw.choice(("none", "full") if "lora" in more else ("none", "full", "selective"))
        yield make(model, cp, rank, ac, batch, seq, **more)


def cases():
    for entry in drawn(40, 81):
        if entry["model"] != "gemma2_2b_4layers":  # transformers 5.23 refuses SDPA for it
            yield entry



def model_of(entry):
    """On the meta device."""
    config = transformers.AutoConfig.for_model(**config_of(entry["model"]))
    config._attn_implementation = "sdpa"
    with torch.device("meta"):
        model = auto_class(config).from_config(config, dtype=training_step.DTYPES[entry["param_dtype"]]).train()
    model.tie_weights()
    return tp_lora_peaks.adapted(model, entry) if "lora" in entry else model


def build(entry, on_loss):
    model = model_of(entry)
    mesh, sharded = cp_step.meshes(entry)
    blocks = training_step.blocks_of(model)
    attach_context_parallel_hooks(model)
    training_step.checkpoint_blocks(model, emulated_peaks.ac_of(entry))
    step = training_step.Step(model, "hf", on_loss)
    emulated_peaks.shard_over(sharded, step, blocks, entry)
    emulated_peaks.on_device(step)
    return step, mesh


def steps(entry, marks, _):
    step, mesh = build(entry, lambda: marks.enter("loss"))
    optimizer = emulated_peaks.make_optimizer(entry, step)
    vocabulary = step.m.config.get_text_config().vocab_size
    gc.collect()
    torch.cuda.empty_cache()  # what was needed to set up
    kept, found = [], []
    for _ in range(2):
        marks.figures = {}
        run_step(entry, step, mesh, vocabulary, optimizer, marks.enter, kept)
        marks.enter(None)
        found.append(marks.figures)
    return found


def measure(entry):
    return emulated_peaks.measure(cp_peaks.DEFAULTS | DEFAULTS | entry, steps=steps)


if __name__ == "__main__":
    if "--list" in sys.argv:
        for world, rank in sorted({(entry["world"], rank_of(entry)) for entry in cases()}):
            print(world, rank)
        sys.exit()
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__,
                                 lambda entry: rank_of(entry) == int(os.environ["RANK"])))
