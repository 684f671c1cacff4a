"""fully_shard on each block and on the root; run with --world N."""

import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from model import arguments, model, tokens

args = arguments()
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
dist.init_process_group("nccl")
net = model(args.tiny, device="meta")
for block in net.model.layers:
    fully_shard(block, mp_policy=MixedPrecisionPolicy())
fully_shard(net, mp_policy=MixedPrecisionPolicy())
net.to_empty(device="cuda")
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
ids = tokens(args)
for _ in range(args.steps):
    optimizer.zero_grad(set_to_none=True)
    output = net(input_ids=ids, labels=ids, use_cache=False)
    output.loss.backward()
    optimizer.step()
dist.destroy_process_group()
