"""PyTorch's context_parallel: each rank has a part of the sequence; run with --world N."""

import os

import torch
import torch.distributed as dist
from torch.distributed.tensor.experimental import context_parallel
from torch.nn.attention import SDPBackend, sdpa_kernel

from loop import report
from model import arguments, model, tokens

args = arguments()
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
dist.init_process_group("nccl")
mesh = dist.init_device_mesh("cuda", (dist.get_world_size(),))
net = model(args.tiny)


def causal(module, positional, named):
    """A part's positions jump, which transformers takes for packed documents: no mask, as accelerate does it."""
    return positional, named | {"attention_mask": None, "is_causal": True}


for block in net.model.layers:
    block.self_attn.register_forward_pre_hook(causal, with_kwargs=True)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
ids = tokens(args)
labels = ids.clone()
positions = torch.arange(args.seq, device="cuda").repeat(args.batch, 1)
for _ in range(args.steps):
    optimizer.zero_grad(set_to_none=True)
    buffers = [ids.clone(), labels.clone(), positions.clone()]
    with context_parallel(mesh, buffers=buffers, buffer_seq_dims=[1, 1, 1]), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        mine, targets, where = buffers
        net(input_ids=mine, labels=targets, position_ids=where, use_cache=False).loss.backward()
    optimizer.step()
report()
dist.destroy_process_group()
