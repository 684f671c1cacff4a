"""Peaks and launches of Megatron-core's steps on the emulated device, as emulated_peaks.py has them: a case is a rank's step.

    ac-advisor dryrun --world N --rank R --output /dev/null -- python megatron_peaks.py OUTPUT.json [--only LABEL] [--again]

Runs the cases of megatron_cases.py that have this world and this rank; `megatron_cases.py` prints which there are. With
Transformer Engine among the packages its FusedAdam is the optimizer; the cases of `optimizer` torch need an environment
without it.
"""

import gc
import importlib.util
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ.setdefault("NVTE_ALLOW_NONDETERMINISTIC_ALGO", "0")
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")
for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29558}.items():
    os.environ.setdefault(name, str(value))  # groups of one rank, too

import torch
import torch.distributed as dist

if importlib.util.find_spec("transformer_engine_torch"):  # stand-ins, before Megatron-core looks for what they stand for
    import megatron_apex  # noqa: F401
    import megatron_flash  # noqa: F401
from megatron.core import parallel_state
from megatron.core.models.common.embeddings.rotary_pos_embedding import RotaryEmbedding
from megatron.core.models.common.embeddings.yarn_rotary_pos_embedding import YarnRotaryEmbedding
from megatron.core.optimizer import USING_PYTORCH_OPTIMIZER
from megatron.core.transformer.moe import moe_utils

import emulated_peaks
import megatron_cases
import megatron_step

emulated_peaks.config_of = megatron_cases.config_of
DEFAULTS = {"tp": 1, "pp": 1, "pp_rank": 0, "cp": 1, "ep": 1, "etp": 0, "optimizer_instances": 1, "layers_per_virtual_stage": 0,
            "sequence_parallel": False, "attn": "auto",
            "optimizer": "fused", "use_distributed_optimizer": False, "overlap_grad_reduce": False,
            "overlap_param_gather": False, "masked_softmax_fusion": True, "bias_dropout_fusion": True,
            "bias_activation_fusion": True, "deterministic": True, "log_num_zeros": True,
            "cross_entropy_fusion": False, "recompute": "none", "fp8": "none", "gradient_fusion": False}


def steps(entry, marks, _):
    values = megatron_cases.config_of(entry["model"])
    entry = entry | {"layers": values["num_layers"]}
    torch.use_deterministic_algorithms(entry["deterministic"])
    chunks = megatron_step.layout(entry)
    config = megatron_step.config_of(entry, values, chunks)
    marks.enter("set-up")
    megatron_step.warm_up(entry, config)
    model = megatron_step.make_model(entry, values, config, chunks)
    optimizer = megatron_step.make_optimizer(entry, model)
    megatron_step.prepare(entry, config, model, optimizer)
    data = [megatron_step.batches(entry) for _ in model]
    gc.collect()
    found = []
    for _ in range(3):
        marks.enter(None)
        found.append(marks.figures)
        marks.figures = {}
        reported = megatron_step.train_step(entry, model, optimizer, data if chunks else data[0], marks.enter)
        marks.enter(None)
        marks.held = torch.cuda.memory_allocated()
        del reported
    setup, *found = found + [marks.figures]
    marks.figures = {}
    megatron_step.forget(model)
    return [setup, *found]


def filled(figures):
    """A phase that a stage has not: zeros."""
    nothing = {"allocated": 0, "reserved": 0, **dict.fromkeys(emulated_peaks.LAUNCHES, 0)}
    return {phase: figures.get(phase, nothing) for phase in (*emulated_peaks.PHASES, "set-up")}


def measure(entry):
    entry = DEFAULTS | entry
    marks = emulated_peaks.Marks()
    torch._C._accelerator_setAllocatorSettings("expandable_segments:False")
    try:
        setup, first, *_, last = every = [filled(step) for step in steps(entry, marks, None)]
    finally:
        let_go()
    highest = emulated_peaks.highest
    return {
        "peak_allocated": highest(last, "allocated"),
        "peak_reserved": max(highest(step, "reserved") for step in every),
        "set_up_peak": highest(setup, "allocated"),
        "first_step_peak": highest(first, "allocated"),
        "held": marks.held,
        "allocated": {p: last[p]["allocated"] for p in emulated_peaks.PHASES},
        "reserved": {p: last[p]["reserved"] for p in emulated_peaks.PHASES},
        "launches": {p: [last[p][a] for a in emulated_peaks.LAUNCHES] for p in emulated_peaks.PHASES},
    }


def let_go():
    """What the libraries keep in tables of their own."""
    parallel_state.destroy_model_parallel()
    torch.use_deterministic_algorithms(False)
    torch._dynamo.reset()
    RotaryEmbedding.forward.cache_clear()
    YarnRotaryEmbedding.forward.cache_clear()
    moe_utils.MoEAuxLossAutoScaler.main_loss_backward_scale = None
    moe_utils.get_moe_layer_wise_logging_tracker().clear()
    for backend in ("FLASH", "FUSED", "UNFUSED"):
        os.environ.pop(f"NVTE_{backend}_ATTN", None)
    if not USING_PYTORCH_OPTIMIZER:
        from transformer_engine.pytorch.attention.dot_product_attention import dot_product_attention, utils
        from transformer_engine.pytorch.cpp_extensions import gemm
        from transformer_engine.pytorch.fp8 import FP8GlobalStateManager
        from transformer_engine.pytorch.module import base
        FP8GlobalStateManager.reset()
        base._dummy_wgrads.clear()
        gemm.get_cublas_workspace.cache_clear()
        utils._cu_seqlens_cache.clear()
        dot_product_attention._attention_backends["attention_params"] = None  # chosen anew
    gc.collect()


def mine(entry):
    same_rank = megatron_cases.rank_of(entry) == int(os.environ["RANK"])
    return same_rank and (entry.get("optimizer") == "torch") == USING_PYTORCH_OPTIMIZER


if __name__ == "__main__":
    if os.environ["WORLD_SIZE"] == "1":
        dist.init_process_group("nccl")
    sys.exit(emulated_peaks.main(list(megatron_cases.all_cases()), measure, __doc__, mine))
