"""A mixture of experts in eager mode: routing reads token counts back, and is balanced."""

import torch
from transformers import AutoModelForCausalLM, MixtralConfig

from loop import report, train
from model import arguments, config

args = arguments(batch=4)
dense = config(args.tiny)
experts = MixtralConfig(
    vocab_size=dense.vocab_size,
    hidden_size=dense.hidden_size // 2,
    intermediate_size=dense.intermediate_size // 2,
    num_hidden_layers=dense.num_hidden_layers // 2,
    num_attention_heads=dense.num_attention_heads // 2,
    num_key_value_heads=dense.num_key_value_heads // 2,
    head_dim=dense.head_dim,
    num_local_experts=8,
    num_experts_per_tok=2,
)
with torch.device("cuda"):
    net = AutoModelForCausalLM.from_config(
        experts, dtype=torch.bfloat16, attn_implementation="sdpa", experts_implementation="eager"
    ).train()
train(net, torch.optim.AdamW(net.parameters(), fused=True), args)
report()
