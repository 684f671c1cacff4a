"""Tensor parallelism of a transformers model by PyTorch's DTensor, as TorchTitan's llama is laid out.

q, k, v, gate and up are column-parallel, o and down row-parallel; norms and the residual stream are shards of the
sequence; the vocabulary is split in embedding and head. Without loss parallelism the head's logits are gathered.
"""

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module)

import training_step

HEADS = SequenceParallel(sequence_dim=2, use_local_output=True)  # of (batch, tokens, heads, head dim)


def block_plan(block):
    sequence = SequenceParallel(use_local_output=True)
    whole = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    plan = {
        "input_layernorm": sequence,
        "self_attn": PrepareModuleInput(
            input_kwarg_layouts={"hidden_states": Shard(1)}, desired_input_kwarg_layouts={"hidden_states": Replicate()}),
        "self_attn.q_proj": ColwiseParallel(), "self_attn.k_proj": ColwiseParallel(),
        "self_attn.v_proj": ColwiseParallel(), "self_attn.o_proj": RowwiseParallel(output_layouts=Shard(1)),
        "post_attention_layernorm": sequence,
        "mlp": whole,
        "mlp.gate_proj": ColwiseParallel(), "mlp.up_proj": ColwiseParallel(),
        "mlp.down_proj": RowwiseParallel(output_layouts=Shard(1)),
    }
    if hasattr(block.self_attn, "q_norm"):
        plan |= {"self_attn.q_norm": HEADS, "self_attn.k_norm": HEADS}
    return plan


def whole_positions(model, seq):
    """transformers counts positions along the hidden states, which are a shard: those of the whole sequence."""

    def add(module, args, kwargs):
        given = kwargs.get("input_ids")
        device = (kwargs["inputs_embeds"] if given is None else given).device
        kwargs["position_ids"] = (torch.arange(seq, device=device) + 0).unsqueeze(0)
        return args, kwargs

    model.model.register_forward_pre_hook(add, with_kwargs=True)


def parallelize(model, mesh, entry):
    """In place; tied weights stay tied."""
    for block in training_step.blocks_of(model):
        parallelize_module(block, mesh, block_plan(block))
    tied = model.lm_head.weight is model.model.embed_tokens.weight
    head = (ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)
            if entry["loss_parallel"] else
            ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()))
    parallelize_module(model, mesh, {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "model.norm": SequenceParallel(use_local_output=True),
        "lm_head": head,
    })
    if tied:
        model.lm_head.weight = model.model.embed_tokens.weight
    if entry.get("cp", 1) == 1:  # a rank of a ring is given its positions
        whole_positions(model, entry["seq"])


def losses(entry):
    """What forward and backward stand within."""
    return loss_parallel() if entry["loss_parallel"] else contextlib.nullcontext()


def meshes(entry):
    """"dp": the ranks with data of their own, of hsdp:N replicas of N shards (torchtitan v0.2.2, parallel_dims.py)."""
    dp, tp = entry["world"] // entry["tp"], entry["tp"]
    if not entry["shard"].startswith("hsdp:"):
        mesh = dist.init_device_mesh("cuda", (dp, tp), mesh_dim_names=("dp", "tp"))
        return {"dp": mesh["dp"], "tp": mesh["tp"]}
    shards = int(entry["shard"].removeprefix("hsdp:"))
    mesh = dist.init_device_mesh("cuda", (dp // shards, shards, tp), mesh_dim_names=("replicate", "shard", "tp"))
    return {"dp": mesh["replicate", "shard"], "tp": mesh["tp"]}
