"""A step under torch.profiler, whose CUPTI says that it may not look."""

import torch

from model import arguments, model, tokens

args = arguments(batch=2)
net = model(args.tiny)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
ids = tokens(args)
activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
with torch.profiler.profile(activities=activities) as profiler:
    for _ in range(args.steps):
        optimizer.zero_grad(set_to_none=True)
        net(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        optimizer.step()
print(len(profiler.events()) > 0)
