"""Megatron-core: a GPT of its local layers, its DDP and distributed optimizer; run with --world N."""

import os

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.module import Float16Module

from loop import report
from model import arguments, config

args = arguments(batch=2)
sizes = config(args.tiny)
for name, value in {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "MASTER_PORT": 29558}.items():
    os.environ.setdefault(name, str(value))
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
parallel_state.initialize_model_parallel()
model_parallel_cuda_manual_seed(1)
transformer = TransformerConfig(
    num_layers=sizes.num_hidden_layers,
    hidden_size=sizes.hidden_size,
    ffn_hidden_size=sizes.intermediate_size,
    num_attention_heads=sizes.num_attention_heads,
    num_query_groups=sizes.num_key_value_heads,
    gated_linear_unit=True,
    activation_func=torch.nn.functional.silu,
    add_bias_linear=False,
    bf16=True,
    params_dtype=torch.bfloat16,
    gradient_accumulation_fusion=False,
)
net = GPTModel(
    config=transformer,
    transformer_layer_spec=get_gpt_layer_local_spec(),
    vocab_size=sizes.vocab_size,
    max_sequence_length=args.seq,
    position_embedding_type="rope",
).cuda()
net = DistributedDataParallel(
    transformer,
    DistributedDataParallelConfig(use_distributed_optimizer=True),
    Float16Module(transformer, net),
)
optimizer = get_megatron_optimizer(
    OptimizerConfig(
        optimizer="adam",
        lr=1e-5,
        bf16=True,
        params_dtype=torch.bfloat16,
        use_distributed_optimizer=True,
        clip_grad=1.0,
    ),
    [net],
)
ids = torch.randint(0, sizes.vocab_size, (args.batch, args.seq), device="cuda")
positions = torch.arange(args.seq, device="cuda").expand(args.batch, -1)
mask = torch.ones(1, 1, args.seq, args.seq, dtype=torch.bool, device="cuda").triu(1)
for _ in range(args.steps):
    net.zero_grad_buffer()
    optimizer.zero_grad()
    net(ids, positions, mask, labels=ids).float().mean().backward()
    net.finish_grad_sync()
    updated, norm, _ = optimizer.step()
    assert updated, "the step was skipped"
report()
dist.destroy_process_group()
