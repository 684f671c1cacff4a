"""Liger: fused linear cross-entropy, RMSNorm, SwiGLU and rotary embedding."""

import torch
from liger_kernel.transformers import apply_liger_kernel_to_llama

from loop import report, train
from model import arguments, model

args = arguments(batch=4)
apply_liger_kernel_to_llama()
net = model(args.tiny)
train(net, torch.optim.AdamW(net.parameters(), fused=True), args)
report()
