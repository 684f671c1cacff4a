"""fp32 parameters under autocast, two micro-batches a step, gradients clipped by norm."""

import torch

from model import arguments, model, tokens

args = arguments(batch=2)
net = model(args.tiny, dtype=torch.float32)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
ids = tokens(args)
for _ in range(args.steps):
    optimizer.zero_grad(set_to_none=True)
    for _ in range(2):
        with torch.autocast("cuda", torch.bfloat16):
            loss = net(input_ids=ids, labels=ids, use_cache=False).loss / 2
        loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
