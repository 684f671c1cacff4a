"""Pipeline stages of a transformers model for torch.distributed.pipelining, split as TorchTitan splits its own.

A stage is the model without what other stages have: blocks of its own, the embedding on the first, the final norm and
the LM head on the last. Positions, masks and rotary tables are made on each.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import (PipelineStage, Schedule1F1B, ScheduleDualPipeV, ScheduleGPipe,
                                          ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble)
from torch.distributed.tensor import DTensor
from torchtitan.distributed.pipeline_parallel import generate_llm_fqn_per_model_part
from transformers.loss.loss_utils import ForCausalLMLoss

import cp_step
import emulated_peaks
import tp_step
import training_step

SCHEDULES = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe, "interleaved": ScheduleInterleaved1F1B,
             "zb1": ScheduleInterleavedZeroBubble, "zbv": ScheduleZBVZeroBubble, "dualpipev": ScheduleDualPipeV}
SINGLE = {"1f1b", "gpipe"}  # schedules of one stage
V_SHAPED = {"zbv", "dualpipev"}


def virtual_stages(entry):
    """Stages of one rank."""
    name, _, chunks = entry["pp_schedule"].partition(":")
    return 2 if name in V_SHAPED else int(chunks or 1)


def indices_of_rank(entry):
    """Its stages: with a V the last ones come back over the ranks."""
    rank, pp, count = entry["pp_rank"], entry["pp"], entry["pp"] * virtual_stages(entry)
    return (rank, count - 1 - rank) if entry["pp_schedule"] in V_SHAPED else range(rank, count, pp)


def layers_of_stages(entry, layers):
    """(first, end) of each stage's blocks."""
    stages = entry["pp"] * virtual_stages(entry)
    if entry["pp_layers"]:
        counts = [int(n) for n in entry["pp_layers"].split(",")]
    else:
        names = generate_llm_fqn_per_model_part(stages, layers)
        counts = [sum(name.startswith("layers.") for name in stage) for stage in names]
    ends = [sum(counts[:i + 1]) for i in range(stages)]
    return [(end - count, end) for count, end in zip(counts, ends)]


class Stage(nn.Module):
    """(batch, seq) tokens or (batch, seq, hidden) to (batch, seq, hidden) or logits."""

    def __init__(self, whole, first, end, is_first, is_last, on_loss):
        super().__init__()
        self.m = whole.model
        self.m.layers = nn.ModuleList(list(self.m.layers)[first:end])
        self.is_first = is_first
        if not is_first:
            self.m.embed_tokens = None
        if not is_last:
            self.m.norm = nn.Identity()
        self.head = whole.lm_head if is_last else None
        if is_last:
            self.head.register_forward_hook(lambda *_: on_loss())

    @property
    def lm_head(self):
        return self.head

    def forward(self, x, position_ids=None):
        given = {"input_ids" if self.is_first else "inputs_embeds": x}
        hidden = self.m(**given, position_ids=position_ids, use_cache=False).last_hidden_state
        return hidden if self.head is None else self.head(hidden)


class Holder:
    """What checkpoint_blocks expects of a model."""

    def __init__(self, base_model):
        self.base_model = base_model


def make_stages(entry, config, mesh, on_loss):
    """This rank's modules and their indices; each is made of a model of its own, on the meta device."""
    count = entry["pp"] * virtual_stages(entry)
    ranges = layers_of_stages(entry, config["num_hidden_layers"])
    for index in indices_of_rank(entry):
        whole = emulated_peaks.model_of(entry)
        if entry["cp"] > 1:
            cp_step.without_mask(whole)
        if entry["tp"] > 1:
            tp_step.parallelize(whole, mesh["tp"], entry)
        module = Stage(whole, *ranges[index], index == 0, index == count - 1, on_loss)
        training_step.checkpoint_blocks(Holder(module.m), emulated_peaks.ac_of(entry))
        if entry["shard"] != "none":
            emulated_peaks.shard_over(data_mesh(entry, mesh), module, list(module.m.layers), entry)
        yield index, module


def meshes(entry):
    """Pipeline outermost, ranks of a layer innermost, next to them those of a sequence, as TorchTitan 0.2.2 has them."""
    pp, cp, tp = entry["pp"], entry["cp"], entry["tp"]
    data, names = [entry["world"] // (pp * tp)], ["shard"]
    if entry["shard"].startswith("hsdp:"):
        group = int(entry["shard"].removeprefix("hsdp:"))
        data, names = [data[0] // group, group], ["replicate", "shard"]
    if cp > 1:
        data, names = [*data[:-1], data[-1] // cp, cp], [*names, "cp"]
    mesh = dist.init_device_mesh("cuda", (pp, *data, tp), mesh_dim_names=("pp", *names, "tp"))
    if cp > 1:
        mesh["shard", "cp"]._flatten("shard_cp")
    return mesh


def data_mesh(entry, mesh):
    shard = "shard" if entry["cp"] == 1 else "shard_cp"
    return mesh["replicate", shard] if entry["shard"].startswith("hsdp:") else mesh[shard]


def add_tied(stages, mesh):
    """A function that adds up the gradients of the first and the last stage's copies of a tied embedding, as a training
    loop has to: the schedules do not. Collective over the mesh."""
    ranks = dist.get_process_group_ranks(mesh["pp"].get_group())
    ends = dist.new_group([ranks[0], ranks[-1]])

    def add():
        for _, module in stages:
            copy = module.m.embed_tokens if module.is_first else module.head
            if copy is None:
                continue
            parameter, gradient = copy.weight, copy.weight.grad
            if isinstance(parameter, DTensor):
                parameter, gradient = parameter.to_local(), gradient.to_local()
            if gradient.shape != parameter.shape:  # of all words, though the parameter has some
                gradient = gradient.narrow(0, mesh["tp"].get_local_rank() * len(parameter), len(parameter))
            dist.all_reduce(gradient, group=ends)
    return add


def loss_of(entry, vocabulary):
    """Labels of a part of a sequence are shifted before it is cut: the token after a chunk is another rank's."""
    name = "labels" if entry["cp"] == 1 else "shift_labels"
    return lambda logits, labels: ForCausalLMLoss(logits, **{"labels": None, name: labels}, vocab_size=vocabulary)


def make_schedule(entry, stages, config, group):
    """The schedule over this rank's (index, module); shapes are given, so that none is inferred over the wire."""
    count = entry["pp"] * virtual_stages(entry)
    b, s = entry["batch"], entry["seq"] // entry["cp"]
    dtype = training_step.DTYPES[entry["compute_dtype"]]
    hidden = torch.empty(b, s // entry["tp"], config["hidden_size"], dtype=dtype, device="meta")
    logits = torch.empty(b, s, config["vocab_size"], dtype=dtype, device="meta")
    tokens = torch.empty(b, s, dtype=torch.int64, device="meta")
    made = [PipelineStage(module, index, count, torch.device("cuda"), group=group,
                          input_args=tokens if index == 0 else hidden,
                          output_args=logits if index == count - 1 else hidden) for index, module in stages]
    name = entry["pp_schedule"].partition(":")[0]
    return SCHEDULES[name](made[0] if name in SINGLE else made, n_microbatches=entry["grad_accum"],
                           loss_fn=loss_of(entry, config["vocab_size"])), made


def mark_phases(stages, enter):
    """Forward and backward of a stage begin a phase; its loss is begun by the LM head."""

    def marked(call, phase):
        def run(*args, **kwargs):
            enter(phase)
            return call(*args, **kwargs)
        return run

    for stage in stages:
        stage.forward_one_chunk = marked(stage.forward_one_chunk, "forward")
        stage.backward_one_chunk = marked(stage.backward_one_chunk, "backward")
        stage.backward_weight_one_chunk = marked(stage.backward_weight_one_chunk, "backward")
