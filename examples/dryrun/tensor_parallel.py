"""DTensor's tensor parallelism, attention and MLP by columns and rows; run with --world N, which divides the heads."""

import os

import torch
import torch.distributed as dist
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from loop import report, train
from model import arguments, model

args = arguments()
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
dist.init_process_group("nccl")
mesh = dist.init_device_mesh("cuda", (dist.get_world_size(),))
net = model(args.tiny)
columns = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
rows = ("self_attn.o_proj", "mlp.down_proj")
for block in net.model.layers:
    plan = dict.fromkeys(columns, ColwiseParallel()) | dict.fromkeys(rows, RowwiseParallel())
    parallelize_module(block, mesh, plan)
train(net, torch.optim.AdamW(net.parameters(), lr=1e-4, foreach=False), args)  # DTensors and plain ones
report()
dist.destroy_process_group()
