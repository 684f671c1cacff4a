"""FullyShardedDataParallel, FSDP's first version, a unit a block; run with --world N."""

import functools
import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from loop import report, train
from model import arguments, model

args = arguments()
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
dist.init_process_group("nccl")
bf16 = torch.bfloat16
net = FullyShardedDataParallel(
    model(args.tiny, device="cpu", dtype=torch.float32),
    auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer}),
    mixed_precision=MixedPrecision(param_dtype=bf16, reduce_dtype=bf16, buffer_dtype=bf16),
    device_id=torch.cuda.current_device(),
    use_orig_params=True,
)
train(net, torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True), args)
report()
dist.destroy_process_group()
