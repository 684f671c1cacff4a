"""LoRA by PEFT on every linear layer of a frozen bf16 base."""

import torch
from peft import LoraConfig, get_peft_model

from model import arguments, model, tokens

args = arguments(batch=4)
net = get_peft_model(
    model(args.tiny), LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
)
optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-4, fused=True)
ids = tokens(args)
for _ in range(args.steps):
    optimizer.zero_grad(set_to_none=True)
    net(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    optimizer.step()
