"""Ulysses sequence parallelism of a transformers model by DeepSpeed 0.19.8 (UlyssesSPAttentionHF), beside FSDP2.

Each rank has one chunk of every sequence, its positions and the labels after it, as UlyssesSPDataLoaderAdapter hands
them out. DeepSpeed's own wrapper takes the place of transformers' attention function; the loss is transformers' own
for it (deepspeed_sp_compute_loss): the ranks' means, weighted by how many labels each has. FSDP2 shards over all
ranks that see different tokens.
"""

import contextlib
import types

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.runtime.sequence_parallel import parallel_state_sp
from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPAttentionHF
from deepspeed.utils import groups
from transformers.integrations.deepspeed import deepspeed_sp_compute_loss
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import cp_step
import emulated_peaks
import training_step


def register(model, options):
    """SDPA's function wrapped; the groups of ranks that share a sequence."""
    deepspeed.init_distributed("nccl")  # takes the group that there is
    return UlyssesSPAttentionHF.register_with_transformers(
        model, "sdpa", options.cp, options.batch, seq_length=options.seq, seq_length_is_variable=False)


@contextlib.contextmanager
def attention(model, entry):
    own = ALL_ATTENTION_FUNCTIONS["sdpa"]
    groups.mpu = register(model, types.SimpleNamespace(**entry))
    try:
        yield
    finally:
        ALL_ATTENTION_FUNCTIONS["sdpa"] = own
        groups.mpu = None
        parallel_state_sp._release_sequence_parallel_groups()


def positions(entry, rank):
    chunk = entry["seq"] // entry["cp"]
    return torch.arange(rank * chunk, (rank + 1) * chunk).repeat(entry["batch"], 1).cuda()


def loss_of(model, **inputs):
    """And the model's output."""
    ranks = dist.get_world_size(groups._get_sequence_parallel_group())
    parallelism = types.SimpleNamespace(sp_backend="deepspeed", sp_size=ranks)
    return deepspeed_sp_compute_loss(None, model, inputs, True, parallelism)


class Weighted(torch.nn.Module):
    """The step with the loss of all ranks that share a sequence."""

    def __init__(self, step, shift_labels):
        super().__init__()
        self.step = step
        self.shift_labels = shift_labels

    def forward(self, ids, labels):
        loss, out = loss_of(lambda input_ids, labels, shift_labels: self.step(input_ids, labels),
                            input_ids=ids, shift_labels=self.shift_labels)
        out.loss = loss
        return out


def build(entry, on_loss):
    """The model's modules, as cp_step.build has them, with transformers' masks."""
    model = emulated_peaks.model_of(entry)
    _, sharded = cp_step.meshes(entry)
    blocks = training_step.blocks_of(model)
    training_step.checkpoint_blocks(model, emulated_peaks.ac_of(entry))
    step = training_step.Step(model, "hf", on_loss)
    emulated_peaks.shard_over(sharded, step, blocks, entry)
    emulated_peaks.on_device(step)
    return step
