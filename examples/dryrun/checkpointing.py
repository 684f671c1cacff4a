"""The plain loop with Hugging Face's gradient checkpointing."""

import torch

from model import arguments, model, tokens

args = arguments()
net = model(args.tiny)
net.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
ids = tokens(args)
for _ in range(args.steps):
    optimizer.zero_grad(set_to_none=True)
    net(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    optimizer.step()
