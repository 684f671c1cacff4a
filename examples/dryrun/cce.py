"""cut-cross-entropy: a loss without logits."""

import torch
from cut_cross_entropy import linear_cross_entropy

from loop import report
from model import arguments, model, tokens

args = arguments(batch=4)
net = model(args.tiny)
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
ids = tokens(args)
for _ in range(args.steps):
    optimizer.zero_grad(set_to_none=True)
    hidden = net.model(input_ids=ids, use_cache=False).last_hidden_state
    linear_cross_entropy(hidden, net.lm_head.weight, ids, shift=True).backward()
    optimizer.step()
report()
