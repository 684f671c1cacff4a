"""DistributedDataParallel over NCCL; run with --world N."""

import os

import torch
import torch.distributed as dist

from model import arguments, model, tokens

args = arguments(batch=4)
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
dist.init_process_group("nccl")
net = torch.nn.parallel.DistributedDataParallel(
    model(args.tiny), device_ids=[torch.cuda.current_device()], gradient_as_bucket_view=True
)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
ids = tokens(args)
for _ in range(args.steps):
    optimizer.zero_grad(set_to_none=True)
    net(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    optimizer.step()
dist.destroy_process_group()
