"""Peaks and launches of steps whose layers NeMo AutoModel compiles, where their attention breaks the graph, on the
emulated device.

    PYTHONPATH=nemo_automodel-0.5.0 ac-advisor dryrun --world 8 --rank R --output /dev/null -- \\
        python automodel_compile_peaks.py automodel_compile_peaks.json

As emulated_peaks.py. Layers are sharded, then compiled in their place by AutoModel's `_apply_per_layer_compile`
(components/distributed/parallelizer.py, `enable_compile`), with its `compile_utils` imported. A case with packing is a row
of documents by flash_attention_2, each layer of which looks in the positions for them; one with cp shares sequences by its
`attach_cp_sdpa_hooks` and `make_cp_batch_and_ctx` (cp_utils.py), whose attention Dynamo may not trace. What looks for documents
runs as it does uncompiled: its numbers must be true, and generated kernels do not run here. `--list` prints the ranks that
there are.
"""

import gc
import os
import random
import sys

import packed_flash  # noqa: F401  before transformers
import torch
import transformers
from nemo_automodel.components.distributed.cp_utils import attach_context_parallel_hooks, attach_cp_sdpa_hooks
from nemo_automodel.components.distributed.parallelizer import (
    _apply_per_layer_compile,
    apply_selective_activation_checkpointing,
)
from nemo_automodel.components.utils import compile_utils  # noqa: F401  patches flash attention's arguments
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from transformers import modeling_flash_attention_utils

import compile_peaks  # noqa: F401  how Inductor is set
import cp_peaks
import cp_step
import emulated_peaks
import tp_lora_peaks
import training_step
from automodel_step import run_step
from cp_cases import rank_of
from emulated_cases import case, config_of
from generate_peaks import auto_class

MODELS = ("llama1b_4layers", "qwen2_05b_4layers", "qwen3_06b_4layers", "mistral7b_4layers", "smollm17b_untied_4layers",
          "phi3_mini_4layers")
ALL = {"lora": 16, "lora_targets": "all-linear", "lora_dtype": "bf16", "input_require_grads": "off"}


def drawn(seed, count, modes):
    draw = random.Random(seed)
    for number in range(count):
        batch, seq = draw.choice(((1, 4096), (2, 2048), (2, 1024), (1, 8192)))
        more = {"framework": "automodel", "attn": "flash", "kernels": "compiled", "ac_scope": "block", "world": 8,
                "shard": "fsdp2", "keep_last_block": False, "optimizer": draw.choice(("adamw", "adamw-foreach"))}
        more |= {"cp": 2, "cp_rank": draw.choice((0, 1))} if number % 2 else {"packing": draw.choice((2, 4, 7))}
        more |= draw.choice(({}, {}, {"hold_output": False}, {"grad_accum": 2}))
        if draw.random() < 0.3:
            more |= ALL
        model, ac = draw.choice(MODELS), draw.choice(modes)
        if ac == "full":
            more["ac_scope"] = "submodule"
        if ac == "selective" and "lora" in more:
            continue  # its adapters change in place what this checkpoint keeps: PyTorch refuses to read it again
        yield case(model, batch, seq, ac, **more)


def cases():
    seen = []
    for entry in (*drawn("AutoModel's compiled layers", 14, ("none",)),
                  *drawn("and its checkpoints", 8, ("full", "full", "selective"))):
        if entry not in seen:
            seen.append(entry)
    return seen


def model_of(entry):
    """On the meta device."""
    config = transformers.AutoConfig.for_model(**config_of(entry["model"]))
    config._attn_implementation = "sdpa" if "cp" in entry else "flash_attention_2"
    with torch.device("meta"):
        model = auto_class(config).from_config(config, dtype=training_step.DTYPES[entry["param_dtype"]]).train()
    model.tie_weights()
    return tp_lora_peaks.adapted(model, entry) if "lora" in entry else model


def checkpoint(model, ac):
    """DefaultParallelizationStrategy.parallelize of layers that will be compiled."""
    if ac == "selective":
        apply_selective_activation_checkpointing(model, enable_compile=True)
    elif ac == "full":
        for layer in training_step.blocks_of(model):
            for name in ("self_attn", "mlp"):
                setattr(layer, name, checkpoint_wrapper(getattr(layer, name)))


def build(entry, on_loss):
    model = model_of(entry)
    checkpoint(model, entry["ac"])
    mesh, sharded = cp_step.meshes({"cp": 1} | entry)
    step = training_step.Step(model, "hf", on_loss)
    emulated_peaks.shard_over(sharded, step, training_step.blocks_of(model), entry)
    emulated_peaks.on_device(step)
    _apply_per_layer_compile(model)
    if "cp" in entry:
        attach_context_parallel_hooks(model)
        attach_cp_sdpa_hooks(model, mesh["cp"])
    return step, mesh


def steps(entry, marks, _):
    torch._dynamo.reset()
    step, mesh = build(entry, lambda: marks.enter("loss"))
    optimizer = emulated_peaks.make_optimizer(entry, step)
    vocabulary = step.m.config.get_text_config().vocab_size
    gc.collect()
    torch.cuda.empty_cache()  # what was needed to set up
    kept, found = [], []
    for _ in range(2):
        gc.collect()  # frames that Dynamo's exceptions hold in cycles, until Python's collector comes to them
        marks.figures = {}
        run_step(entry, step, mesh, vocabulary, optimizer, marks.enter, kept)
        marks.enter(None)
        found.append(marks.figures)
    return found


def measure(entry):
    return emulated_peaks.measure(cp_peaks.DEFAULTS | {"attn": "flash"} | entry, steps=steps)


def rank(entry):
    return rank_of(entry) if "cp" in entry else 0


for name in ("_is_packed_sequence", "_prepare_from_posids"):
    setattr(modeling_flash_attention_utils, name, torch._dynamo.disable(getattr(modeling_flash_attention_utils, name)))

if __name__ == "__main__":
    if "--list" in sys.argv:
        print(*sorted({rank(entry) for entry in cases()}), sep="\n")
        sys.exit()
    sys.exit(emulated_peaks.main(cases(), measure, __doc__, lambda entry: rank(entry) == int(os.environ["RANK"])))
