"""Expert parallelism of a transformers model by its own classes, beside FSDP2.

What `from_pretrained(distributed_config=DistributedConfig(fsdp_size=N, ep_size=M))` does to a mixture of experts before
it reads weights (transformers 5.23, distributed/mixin.py, maybe_distribute_model): experts are split over the expert
mesh and reached by AllToAllEP, then sharded over the ranks that have the same ones. The rest is sharded as
emulated_peaks.py shards it. Routers choose experts in turn, as the emulated device computes no scores.
"""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from transformers.distributed.configuration_utils import DistributedConfig
from transformers.distributed.expert_parallel import apply_expert_parallelism
from transformers.distributed.utils import TransformersDeviceMesh

import emulated_peaks
import training_step


def meshes(entry):
    """As initialize_distributed_mesh makes them, of one stage and one rank a layer."""
    world, ep = entry["world"], entry["ep"]
    shards = int(entry["shard"].removeprefix("hsdp:")) if entry["shard"].startswith("hsdp:") else world
    axes = ("pp", "dp_replicate", "fsdp", "tp"), ("pp", "dp_replicate", "efsdp", "ep")
    sizes = (1, world // shards, shards, 1), (1, world // shards, shards // ep, ep)
    dense, expert = (dist.init_device_mesh("cuda", s, mesh_dim_names=a) for s, a in zip(sizes, axes))
    config = DistributedConfig(fsdp_size=shards, dp_replicate_size=world // shards, ep_size=ep)
    return config, TransformersDeviceMesh(dense, expert)


def named(config, axis):
    """Of the ranks that `axis` shards over, with the replicas of HSDP."""
    return ("dp_replicate", axis) if config.dp_replicate_size > 1 else axis


def shard_experts(model, config, mesh, policies):
    """apply_fully_sharded_data_parallelism's part of the experts."""
    for module in model.modules():
        if not type(module).__name__.endswith("Experts"):
            continue
        fully_shard(module, mesh=mesh.get_mesh(named(config, "efsdp")), reshard_after_forward=True, **policies)
        module.set_gradient_divide_factor(float(config.dp_size))
        if config.efsdp_size > 1:
            module.set_force_sum_reduction_for_comms(True)


def build(entry, on_loss):
    model = emulated_peaks.model_of(entry)
    config, mesh = meshes(entry)
    plan = model._expand_parallel_plan(dict(model.ep_plan))
    apply_expert_parallelism(model, mesh.get_mesh("ep"), mesh.get_mesh("tp"), plan)
    blocks = training_step.blocks_of(model)
    training_step.checkpoint_blocks(model, emulated_peaks.ac_of(entry))
    step = training_step.Step(model, entry["loss"].replace("ce", "hf"), on_loss)
    shard_experts(model, config, mesh, emulated_peaks.policies_of(entry))
    emulated_peaks.shard_over(mesh.get_mesh(named(config, "fsdp")), step, blocks, entry)
    emulated_peaks.on_device(step)
    return step, step


def keep_all_to_all():
    """TorchTitan 0.2.2's policy of a mixture of experts (models/llama4/infra/parallelize.py) saves its results."""
    training_step.KEPT.add(torch.ops._c10d_functional.all_to_all_single.default)
