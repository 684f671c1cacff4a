"""torch.compile of each block: Inductor and Triton run for the emulated device's architecture."""

import torch

from model import arguments, model, tokens

args = arguments(batch=4)
net = model(args.tiny)
for block in net.model.layers:
    block.compile()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
ids = tokens(args)
for _ in range(args.steps):
    optimizer.zero_grad(set_to_none=True)
    net(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    optimizer.step()
