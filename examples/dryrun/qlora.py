"""QLoRA: a base in NF4 by bitsandbytes, adapters by PEFT."""

import torch
from bitsandbytes.nn import Linear4bit
from peft import LoraConfig, get_peft_model

from model import arguments, model, tokens

args = arguments(batch=4)
net = model(args.tiny, device="cpu")
for name, module in list(net.named_modules()):
    for child_name, child in list(module.named_children()):
        if isinstance(child, torch.nn.Linear) and child_name != "lm_head":
            quantized = Linear4bit(
                child.in_features,
                child.out_features,
                bias=False,
                compute_dtype=torch.bfloat16,
                quant_type="nf4",
            )
            quantized.load_state_dict(child.state_dict())
            setattr(module, child_name, quantized)
net = net.cuda()
net = get_peft_model(
    net, LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
)
optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-4, fused=True)
ids = tokens(args)
for _ in range(args.steps):
    optimizer.zero_grad(set_to_none=True)
    net(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    optimizer.step()
