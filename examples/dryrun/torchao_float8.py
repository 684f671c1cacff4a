"""torchao: float8 products with a scale for each tensor."""

import torch
from torchao.float8 import convert_to_float8_training

from loop import report, train
from model import arguments, model

args = arguments(batch=2)
net = model(args.tiny)
convert_to_float8_training(net, module_filter_fn=lambda module, name: "lm_head" not in name)
train(net, torch.optim.AdamW(net.parameters(), fused=True), args)
report()
