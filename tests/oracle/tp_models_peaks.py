"""Peaks and launches of tensor-parallel steps by NeMo AutoModel's plans of other models and of other steps than
tp_plans_peaks.py has, on the emulated device.

    PYTHONPATH=nemo_automodel-0.5.0:liger_kernel-0.8.5 ac-advisor dryrun --world N --output /dev/null -- \\
        python tp_models_peaks.py tp_models_peaks.json

As tp_plans_peaks.py, of transformers' mixtures of experts (which `force_hf` asks for: AutoModel's own refuse tp_size), whose
experts its default plan leaves whole on each rank; of Phi-3, whose fused q, k and v it splits by their inputs; of packed rows
(a case has packing, as packing_pp_peaks.py has it of AutoModel) and of torchao's Float8Linear, which PyTorch's own
classes split (a case has fp8).
"""

import random
import sys

import packed_flash  # noqa: F401  before transformers
import torch
import transformers
from torchao.float8 import convert_to_float8_training

import emulated_cases
import emulated_peaks
import float8_peaks
import packing_peaks
import tp_lora_peaks
import tp_peaks
import tp_plans_peaks
import tp_step
import training_step
from emulated_cases import EAGER_ONLY, config_of
from generate_peaks import auto_class, sizes

emulated_cases.VALUES |= {
    "qwen3_moe_32_experts_3layers": sizes(2048, 6144, 3, 32, 4, 128, 65536, False, model_type="qwen3_moe",
                                          num_experts=32, num_experts_per_tok=4, moe_intermediate_size=768,
                                          norm_topk_prob=True),
    "mixtral_8_experts_2layers": sizes(2048, 5632, 2, 16, 8, 128, 32000, False, model_type="mixtral",
                                       num_local_experts=8, num_experts_per_tok=2, sliding_window=None),
    "phi3_mini_window_4layers": emulated_cases.VALUES["phi3_mini_4layers"] | {"sliding_window": 2047},
}
EXPERTS = ("qwen3_moe_32_experts_3layers", "mixtral_8_experts_2layers")
PHI = ("phi3_mini_4layers", "phi3_mini_window_4layers")
GEMMA = ("gemma2_2b_4layers", "gemma3_4b_6layers")
# What its preset has otherwise than emulated_peaks.py's step.
AUTOMODEL = {"framework": "automodel", "kernels": "eager", "ac_scope": "block", "keep_last_block": False}


def of_automodel(entry):
    return entry | AUTOMODEL | {"optimizer": entry.get("optimizer", "adamw"), "attn": entry.get("attn", "auto")}


def packed(models, count, seed):
    draw = random.Random(seed)
    for entry in tp_plans_peaks.drawn(models, count, seed):
        yield of_automodel(entry) | {"attn": "flash", "packing": draw.choice((2, 4, 7))}


def in_fp8(models, count, seed, recipes=("tensorwise", "rowwise")):
    draw = random.Random(seed)
    for entry in tp_plans_peaks.drawn(models, count, seed):
        entry.pop("attn", None)
        if entry["batch"] * entry["seq"] % 16 != 0:
            entry["seq"] = 1008
        yield entry | {"fp8": draw.choice(recipes)}


def cases():
    yield from tp_plans_peaks.drawn(EXPERTS, 14, 71)
    yield from tp_plans_peaks.drawn(PHI, 12, 72)
    yield from packed((*tp_plans_peaks.LLAMA[:3], *EXPERTS, *GEMMA, PHI[0]), 16, 73)
    yield from in_fp8((*tp_plans_peaks.LLAMA[:3], GEMMA[0], PHI[0], EXPERTS[1]), 18, 74)


def model_of(entry):
    """On the meta device."""
    config = transformers.AutoConfig.for_model(**config_of(entry["model"]))
    eager = config.model_type in EAGER_ONLY
    config._attn_implementation = "flash_attention_2" if "packing" in entry else "eager" if eager else "sdpa"
    with torch.device("meta"):
        model = auto_class(config).from_config(config, dtype=training_step.DTYPES[entry["param_dtype"]]).train()
    model.tie_weights()
    if "fp8" in entry:
        model = convert_to_float8_training(model, config=float8_peaks.config_of(entry),
                                           module_filter_fn=float8_peaks.converted)
    return tp_lora_peaks.adapted(model, entry) if "lora" in entry else model


def row_of(entry):
    """What comes with a row's tokens and labels."""
    row = packing_peaks.row_of(entry, 2)
    starts = row["cu_seq_lens_q"].to(torch.int64)
    lengths = (starts[1:] - starts[:-1])[None]
    return {"position_ids": row["position_ids"], "seq_lens": lengths, "seq_lens_padded": lengths,
            "padding_mask": torch.zeros_like(row["position_ids"], dtype=torch.bool)}


def measure(entry):
    def build(one, on_loss):
        step, trained = tp_peaks.build(one, on_loss)
        if "packing" in one:
            step.more |= row_of(entry)
        return step, trained

    others = training_step.torchtitan_policy
    if "fp8" in entry:
        training_step.torchtitan_policy = float8_peaks.policy
    one = {"loss_parallel": True} | entry
    if "packing" in entry:
        one |= {"batch": 1, "seq": entry["batch"] * entry["seq"]}
    try:
        with tp_step.losses(one):
            return emulated_peaks.measure(one, build)
    finally:
        training_step.torchtitan_policy = others


emulated_peaks.model_of = model_of

if __name__ == "__main__":
    if "--list" in sys.argv:
        for at in sorted({(entry["world"], "--only hsdp" * ("hsdp" in entry["shard"])) for entry in cases()}):
            print(*at)
        sys.exit()
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__, tp_peaks.mine))
