"""A plain PyTorch loop: model, loss, backward, fused AdamW."""

import torch

from model import arguments, model, tokens

args = arguments()
net = model(args.tiny)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
ids = tokens(args)
for _ in range(args.steps):
    optimizer.zero_grad(set_to_none=True)
    output = net(input_ids=ids, labels=ids, use_cache=False)
    output.loss.backward()
    optimizer.step()
print("peak allocated:", torch.cuda.max_memory_allocated())
