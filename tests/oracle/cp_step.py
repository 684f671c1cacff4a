"""Context parallelism of a transformers model by PyTorch's ring attention, as TorchTitan 0.2.2 applies it.

Each rank has two chunks of every sequence, one from either end (`_HeadTailLoadBalancer`), and their positions.
scaled_dot_product_attention is given DTensors that are shards of the tokens (`_ContextParallel`), so that PyTorch's
dispatcher makes a ring of it; causality is said, no mask is made. FSDP2 shards over all ranks that see different
tokens.
"""

import contextlib
import functools

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.tensor.experimental import _attention
from transformers import masking_utils

import emulated_peaks
import tp_step
import training_step


def meshes(entry):
    """Parts of a layer innermost, then parts of a sequence, as TorchTitan has them (parallel_dims.py); parameters are
    sharded over all ranks that have the same part of a layer."""
    tp, cp = entry.get("tp", 1), entry["cp"]
    ranks = entry["world"] // tp
    names, data = ("shard", "cp"), (ranks // cp, cp)
    if entry["shard"].startswith("hsdp:"):
        group = int(entry["shard"].removeprefix("hsdp:"))
        names, data = ("replicate", "shard", "cp"), (ranks // group, group // cp, cp)
    if tp > 1:
        names, data = names + ("tp",), data + (tp,)
    mesh = dist.init_device_mesh("cuda", data, mesh_dim_names=names)
    flat = mesh["shard", "cp"]._flatten("shard_cp")
    return mesh, mesh["replicate", "shard_cp"] if "replicate" in names else flat


@contextlib.contextmanager
def attention(mesh, rotate):
    """scaled_dot_product_attention as a ring over the mesh."""
    _attention._cp_options.enable_load_balance = True
    _attention.set_rotate_method(rotate)
    _attention._enable_context_parallel_dispatcher()
    parallel = _attention._ContextParallel(2, _attention._ContextParallel.AttentionType.SDPA)
    whole = F.scaled_dot_product_attention

    @functools.wraps(whole)
    def ring(*args, **kwargs):
        args, kwargs = parallel.sdpa_input_fn(None, args, kwargs, mesh)
        return parallel.sdpa_output_fn(None, (args, kwargs), whole(*args, **kwargs), mesh)

    F.scaled_dot_product_attention = ring
    try:
        yield
    finally:
        F.scaled_dot_product_attention = whole
        _attention._disable_context_parallel_dispatcher()


def without_mask(model):
    """Positions that jump look like packed documents; TorchTitan makes no mask, and asks for causality."""
    modeling = __import__(type(model).__module__, fromlist=["create_causal_mask"])
    for name in ("create_causal_mask", "create_sliding_window_causal_mask"):
        if hasattr(modeling, name):
            setattr(modeling, name, lambda **_: None)


def with_masks(model):
    modeling = __import__(type(model).__module__, fromlist=["create_causal_mask"])
    for name in ("create_causal_mask", "create_sliding_window_causal_mask"):
        if hasattr(modeling, name):
            setattr(modeling, name, getattr(masking_utils, name))


def positions(entry, rank):
    """Of a rank's two chunks, (batch, its tokens)."""
    chunk = entry["seq"] // (2 * entry["cp"])
    first, last = rank * chunk, (2 * entry["cp"] - 1 - rank) * chunk
    mine = torch.cat([torch.arange(first, first + chunk), torch.arange(last, last + chunk)]).to(torch.int32)
    return mine.repeat(entry["batch"], 1).cuda()


def build(entry, on_loss):
    model = emulated_peaks.model_of(entry)
    without_mask(model)
    mesh, sharded = meshes(entry)
    if entry.get("tp", 1) > 1:
        tp_step.parallelize(model, mesh["tp"], entry)
    blocks = training_step.blocks_of(model)
    training_step.checkpoint_blocks(model, emulated_peaks.ac_of(entry))
    step = training_step.Step(model, "hf", on_loss)
    emulated_peaks.shard_over(sharded, step, blocks, entry)
    emulated_peaks.on_device(step)
    return step, mesh
