"""Peaks and launches of packed documents in pipeline stages and in layers in parts, on the emulated device.

    ac-advisor dryrun --world N --rank R --output /dev/null -- python packing_pp_peaks.py packing_pp_peaks.json

With --only pp= stages, else layers in parts alone: DTensor remembers groups by their names.
As pp_peaks.py and tp_peaks.py; a case has their keys, packing (documents in the row of batch x seq tokens), lora and
framework. A micro-batch is one row. hf: stages are given what TRL's padding-free collator gives, a row a micro-batch
(positions that restart, cu_seq_lens), and transformers' models make of it what they do. automodel: NeMo AutoModel
0.5.0's default_collater gives packs with seq_lens, of which no layer of transformers' is told, and a stage runs its own
forward (components/distributed/pipelining/hf_utils.py), so each layer looks in the positions where documents begin; its
adapters are LinearLoRA. It packs with flash_attention_2 alone (_transformers/kernel_patches.py). That forward is of an
older transformers, whose masks took cache_position as well.
"""

import os
import random
import sys
import types

import packed_flash  # noqa: F401  before transformers
import torch
from nemo_automodel.components._peft.lora import PeftConfig, apply_lora_to_linear_modules
from nemo_automodel.components.distributed.parallel_styles import translate_to_lora
from nemo_automodel.components.distributed.pipelining.hf_utils import create_pipeline_forward_inner
from transformers import masking_utils

import emulated_peaks
import packing_peaks
import peft_peaks
import pp_peaks
import pp_step
import tp_peaks
import tp_step
from emulated_cases import case
from pp_cases import FULL, MIXED, NONE, SELECTIVE, make, rank_of
from training_step import DTYPES

SEED = 20260728
FOUR = ("smollm17b_untied_4layers", "mistral7b_4layers", "qwen3_06b_4layers", "llama1b_4layers", "qwen2_05b_4layers")
EIGHT = ("smollm17b_untied_8layers",)
ALL = {"lora": 16, "lora_targets": "all-linear", "lora_dtype": "bf16", "input_require_grads": "off"}
QV = ALL | {"lora": 8, "lora_targets": "q_proj,v_proj"}
# What its preset has otherwise than emulated_peaks.py's step.
AUTOMODEL = {"framework": "automodel", "kernels": "eager", "ac_scope": "block", "keep_last_block": False,
             "optimizer": "adamw"}
PARTS = {"sequence_parallel": True, "loss_parallel": True}  # tp_step.py's, and not its preset's


def drawn(draw, models, layouts, framework, **more):
    """A model, a row of documents, and how it is trained."""
    flash = framework == "automodel" or more.get("tp", 1) > 1
    attention = ("flash",) if flash else ("flash", "auto", "auto", "eager")
    documents = (2, 4, 7, 64) if framework == "automodel" else (1, 2, 4, 7, 64)
    batch, seq = draw.choice(((1, 2048), (2, 1024), (1, 1000), (3, 1000), (2, 2048)))
    entry = {"model": draw.choice(models), "batch": batch, "seq": seq, "ac": draw.choice((NONE, FULL, SELECTIVE)),
             "packing": draw.choice(documents), "attn": attention[0] if flash else draw.choice(attention)}
    entry |= draw.choice(layouts)
    if entry.get("shard") == "fsdp2":
        entry |= draw.choice(({}, MIXED))
    if framework == "automodel":
        more |= AUTOMODEL | {"shard": entry.get("shard", "none")} | (PARTS if (entry | more).get("tp", 1) > 1 else {})
    return entry | more


def with_adapters(draw, entry):
    adapters = draw.choice((ALL, QV))
    return entry | adapters | ({"lora_dtype": "fp32"} if entry.get("param_dtype") == "fp32" else {})


def staged(draw, framework, lora):
    schedule, pp, accum, models = draw.choice((("1f1b", 2, 4, FOUR), ("1f1b", 2, 8, FOUR), ("gpipe", 2, 4, FOUR),
                                               ("interleaved:2", 2, 4, EIGHT), ("1f1b", 4, 8, EIGHT)))
    layouts = ({"world": pp}, {"world": 2 * pp, "shard": "fsdp2"})
    entry = drawn(draw, models, layouts, framework)
    if lora:
        entry = with_adapters(draw, entry)
    rank = draw.choice((0, pp - 1))
    return make(entry.pop("model"), pp, rank, schedule, accum, **entry)


def in_parts(draw, framework, lora):
    models = FOUR[:-1]  # whose heads every number here divides
    layouts = ({"world": 2}, {"world": 4}, {"world": 8, "shard": "fsdp2"})
    entry = drawn(draw, models, layouts, framework, tp=2)
    entry["tp"] = 4 if entry["world"] == 4 else 2
    if lora:
        entry = with_adapters(draw, entry)
    return case(**entry | {"hold_output": draw.choice((True, False)), "grad_accum": draw.choice((1, 2))})


def both(draw, framework):
    layouts = ({"world": 4}, {"world": 8, "shard": "fsdp2"})
    entry = drawn(draw, FOUR[:2], layouts, framework, tp=2)
    return make(entry.pop("model"), 2, draw.choice((0, 1)), "1f1b", 4, **entry)


def cases():
    draw, seen = random.Random(SEED), []
    for framework in ("automodel", "hf"):
        for lora in (False, False, True):
            for kind in (staged, staged, in_parts):
                for _ in range(2):
                    seen.append(kind(draw, framework, lora))
        seen.extend(both(draw, framework) for _ in range(2))
    return [entry for i, entry in enumerate(seen) if entry not in seen[:i] and not mutates(entry)]


def mutates(entry):
    """LinearLoRA adds to a product in place, which this checkpoint keeps: PyTorch refuses to read it again."""
    return is_automodel(entry) and "lora" in entry and "pp" in entry and entry["ac"] == SELECTIVE


def is_automodel(entry):
    return entry.get("framework") == "automodel"


def transformers_model(entry):
    model = plain(entry)
    if entry["attn"] == "flash":
        model.config._attn_implementation = "flash_attention_2"
    return model


def model_of(entry):
    """On the meta device; with adapters its base is frozen."""
    if "lora" not in entry:
        return transformers_model(entry)
    if not (is_automodel(entry) or entry.get("tp", 1) > 1):
        return peft_peaks.model_of(entry)
    model = transformers_model(entry)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    targets = entry["lora_targets"]
    names = ["*_proj"] if targets == "all-linear" else [f"*{name}" for name in targets.split(",")]
    apply_lora_to_linear_modules(model, PeftConfig(target_modules=names, dim=entry["lora"], alpha=2 * entry["lora"],
                                                   lora_dtype=DTYPES[entry["lora_dtype"]]), skip_freeze=True)
    return model


def without_cache_position(make_mask):
    return lambda cache_position=None, **given: make_mask(**given)


class Stage(pp_step.Stage):
    """As pp_step's, given a row a micro-batch."""

    of_automodel = False

    def __init__(self, *args):
        super().__init__(*args)
        self.frozen = not all(parameter.requires_grad for parameter in self.parameters())
        if self.of_automodel:
            self.m.forward = types.MethodType(create_pipeline_forward_inner("PipelineStage"), self.m)

    def forward(self, x, **row):
        if self.of_automodel:
            hidden = self.m(x, use_cache=False, **row)
        else:
            row = {name: of[0] if name.startswith("cu_") else of for name, of in row.items()}
            given = {"input_ids" if self.is_first else "inputs_embeds": x}
            hidden = self.m(**given, use_cache=False, **row).last_hidden_state
        return hidden if self.head is None else self.head(hidden)


def rows_of(entry, count):
    """What comes with so many micro-batches' tokens and labels, on the device."""
    row = packing_peaks.row_of(entry, 2)
    del row["input_ids"], row["labels"]
    if is_automodel(entry):
        starts = row["cu_seq_lens_q"].to(torch.int64)
        lengths = (starts[1:] - starts[:-1])[None]
        row = {"position_ids": row["position_ids"], "seq_lens": lengths, "seq_lens_padded": lengths,
               "padding_mask": torch.zeros_like(row["position_ids"], dtype=torch.bool)}
    stacked = {name: of if of.dim() == 2 else of[None] for name, of in row.items() if isinstance(of, torch.Tensor)}
    return row | {name: of.repeat(count, 1) for name, of in stacked.items()}


def in_pipeline(entry):
    Stage.of_automodel = is_automodel(entry)
    pp_peaks.of_every_stage = lambda one, _: rows_of(entry, one["grad_accum"])
    return pp_peaks.measure(entry | {"batch": 1, "seq": entry["batch"] * entry["seq"]})


def alone(entry):
    def build(one, on_loss):
        step, trained = tp_peaks.build(one, on_loss)
        step.more |= {name: of[0] if name.startswith("cu_") else of for name, of in rows_of(entry, 1).items()}
        return step, trained
    one = {"loss_parallel": True} | entry | {"batch": 1, "seq": entry["batch"] * entry["seq"]}
    with tp_step.losses(one):
        return emulated_peaks.measure(one, build)


def measure(entry):
    tp_step.ColwiseParallel, tp_step.RowwiseParallel, tp_step.SequenceParallel, tp_step.HEADS = (
        [translated(style) for style in STYLES] + [translate_to_lora(HEADS)] if "lora" in entry else [*STYLES, HEADS])
    return in_pipeline(entry) if "pp" in entry else alone(entry)


def translated(style):
    return lambda *args, **kwargs: translate_to_lora(style(*args, **kwargs))


STYLES, HEADS = (tp_step.ColwiseParallel, tp_step.RowwiseParallel, tp_step.SequenceParallel), tp_step.HEADS
plain, peft_peaks.plain = peft_peaks.plain, transformers_model
for name in ("create_causal_mask", "create_sliding_window_causal_mask"):
    setattr(masking_utils, name, without_cache_position(getattr(masking_utils, name)))
emulated_peaks.model_of = model_of
pp_step.Stage = Stage
tp_step.whole_positions = lambda model, seq: None  # a row has its own
add_tied, pp_step.add_tied = pp_step.add_tied, lambda stages, mesh: (
    (lambda: None) if any(module.frozen for _, module in stages) else add_tied(stages, mesh))


def rank(entry):
    return rank_of(entry) if "pp" in entry else 0


def mine(entry):
    return rank(entry) == int(os.environ["RANK"]) and ("pp" in entry) == ("pp=" in sys.argv)


if __name__ == "__main__":
    if "--list" in sys.argv:
        for at in sorted({(entry["world"], rank(entry), "--only pp=" * ("pp" in entry)) for entry in cases()}):
            print(*at)
        sys.exit()
    sys.exit(emulated_peaks.main(cases(), measure, __doc__, mine))
