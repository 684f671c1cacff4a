"""Peaks and launches of tensor-parallel steps by NeMo AutoModel's own plans, on the emulated device.

    PYTHONPATH=nemo_automodel-0.5.0:flash_attn-2.8.3:liger_kernel-0.8.5 ac-advisor dryrun --world N --output /dev/null -- \\
        python tp_plans_peaks.py tp_plans_peaks.json

As tp_peaks.py; layers are split as AutoModel 0.5.0's parallelizer plans its model's class (_get_parallel_plan), without
sequence parallelism, which is its default. Its own loss gathers the logits; here they are gathered by the head
(`loss_parallel: false`, what the default plan does), or the loss is of shards of them. Gradients are clipped by its own
function.
"""

import random
import sys

import flash_package  # noqa: F401  before transformers
import torch
import transformers
from nemo_automodel.components.distributed import parallelizer
from nemo_automodel.components.distributed.parallel_styles import translate_to_lora
from nemo_automodel.components.training.utils import clip_grad_norm
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

import emulated_cases
import emulated_peaks
import optimizer_peaks
import tp_lora_peaks
import tp_peaks
import tp_step
import training_step
from emulated_cases import EAGER_ONLY, EXPANDABLE, case, config_of
from generate_peaks import auto_class, sizes
from tp_cases import MIXED, sharded

WHOLE = {"sequence_parallel": False, "loss_parallel": False}
emulated_cases.VALUES["gemma3_4b_6layers"] = sizes(
    2560, 10240, 6, 8, 4, 256, 262208, True, model_type="gemma3_text", sliding_window=1024)
GEMMA = ("gemma2_2b_4layers", "gemma3_4b_6layers")
LLAMA = ("llama1b_4layers", "smollm17b_untied_4layers", "mistral7b_4layers", "qwen2_05b_4layers", "qwen3_06b_4layers")
LAYOUTS = (sharded(4, 2), sharded(8, 2), sharded(8, 4), {"world": 8, "tp": 2, "shard": "hsdp:2"})


def drawn(models, count, seed):
    draw = random.Random(seed)
    for number in range(count):
        model = models[number % len(models)]
        layout = draw.choice(LAYOUTS)
        if model == "qwen2_05b_4layers":  # two heads of keys and values
            layout = draw.choice([each for each in LAYOUTS if each["tp"] == 2])
        batch, seq = draw.choice(((1, 1024), (1, 2048), (2, 1024), (2, 2048), (3, 1000)))
        more = dict(WHOLE)
        if draw.random() < 0.3:
            more["loss_parallel"] = True
        if draw.random() < 0.3:
            more |= MIXED
        if draw.random() < 0.25:
            more["grad_accum"] = 2
        if draw.random() < 0.25:
            more["hold_output"] = False
        if draw.random() < 0.3:
            more["optimizer"] = "sgd"
        if draw.random() < 0.25:
            more["clip_grad"] = 1.0
        if draw.random() < 0.2:
            more |= EXPANDABLE
        if model == "gemma2_2b_4layers" and draw.random() < 0.5:
            more["attn"] = "flash"
        yield case(model, batch, seq, draw.choice(("none", "full", "selective")), **layout, **more)


def adapted(models, count, seed):
    draw = random.Random(seed)
    for entry in drawn(models, count, seed):
        adapters = {"lora": draw.choice((8, 16)), "input_require_grads": "off",
                    "lora_targets": draw.choice(("all-linear", "q_proj,v_proj"))}
        yield entry | adapters | {"lora_dtype": entry.get("param_dtype", "bf16")}


def cases():
    yield from drawn(GEMMA, 14, 61)
    yield from drawn(LLAMA, 12, 62)
    yield from adapted(GEMMA + LLAMA, 14, 63)
    for entry in drawn((LLAMA[0], LLAMA[2], LLAMA[4], GEMMA[1]), 12, 65):
        yield entry | {"kernels": "fused"}


def model_of(entry):
    """On the meta device; `attn: flash` of soft-capped scores is flash-attn's function, as flash_package_peaks.py has it."""
    config = transformers.AutoConfig.for_model(**config_of(entry["model"]))
    capped = config.model_type in EAGER_ONLY
    config._attn_implementation = "sdpa" if not capped else "flash_attention_2" if entry["attn"] == "flash" else "eager"
    with torch.device("meta"):
        model = auto_class(config).from_config(config, dtype=training_step.DTYPES[entry["param_dtype"]]).train()
    model.tie_weights()
    if entry.get("kernels") == "fused":  # _transformers/auto_model.py, before layers are split
        import liger_kernel.transformers as liger

        liger._apply_liger_kernel_to_instance(model=model, fused_linear_cross_entropy=False)
    return tp_lora_peaks.adapted(model, entry) if "lora" in entry else model


def parallelize(model, mesh, entry):
    """In place, as DefaultParallelizationStrategy.parallelize; tied weights stay tied."""
    plan = parallelizer._get_parallel_plan(model, False, tp_size=mesh.size())
    plan["lm_head"] = (ColwiseParallel(output_layouts=Shard(-1), use_local_output=False) if entry["loss_parallel"] else
                       ColwiseParallel(output_layouts=Replicate()))
    tied = model.lm_head.weight is model.model.embed_tokens.weight
    parallelize_module(model, mesh, {name: translate_to_lora(style) for name, style in plan.items()})
    if parallelizer._attention_is_head_sharded(plan):
        parallelizer._update_attention_head_counts_for_tp(model, mesh.size())
    if tied:
        model.lm_head.weight = model.model.embed_tokens.weight


def clip(self):
    module = torch.nn.Module()
    module.parameters = lambda: self.parameters
    clip_grad_norm(self.norm, [module])
    self.optimizer.step()


optimizer_peaks.Clipping.step = clip
emulated_peaks.model_of = model_of
tp_step.parallelize = parallelize

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), tp_peaks.measure, __doc__, tp_peaks.mine))
