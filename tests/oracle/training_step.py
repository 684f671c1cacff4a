"""The training step of a case: a Hugging Face model, its loss, checkpointing, sharding and optimizer.

A case is a dict with the keys of pytorch_peaks.json (model, config, batch, seq, ac, loss, sharding,
optimizer) and, where they differ from the default, those of DEFAULTS.
"""

import sys
from collections import defaultdict

import torch
import torch.distributed as dist
import torch.nn.functional as F
import transformers
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
from transformers import masking_utils

aten = torch.ops.aten

DEFAULTS = {
    "attn": "flash",  # flash|efficient|math: SDPA runs it, no mask; auto: flash or, masked, efficient; sdpa; eager
    "param_dtype": "bf16",
    "grad_accum": 1,
    "no_sync": False,  # under FSDP: reduce gradients after the last micro-batch only
    "mixed_precision": None,  # under FSDP: {"param": "bf16", "reduce": "fp32"}
    "keep_last_block": False,  # under FSDP: the last block stays gathered after forward
    "fsdp_unit": "segment",  # segment|block: what FSDP shards where a checkpoint holds several blocks
}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
MODEL_TYPES = {"llama1b": "llama", "qwen3_06b": "qwen3"}  # the reference's configs do not say
CHUNK_TOKENS = 1024


# --- attention --------------------------------------------------------------------------------


def flash_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """Key and value heads are not expanded."""
    assert attn_mask is None
    return aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)[0]


def efficient_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                        enable_gqa=False):
    """As scaled_dot_product_attention calls it: a boolean mask becomes an additive one, expanded to all heads."""
    if enable_gqa:
        key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], dim=1) for t in (key, value))
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            minus_infinity = torch.scalar_tensor(float("-inf"), dtype=query.dtype, device=query.device)
            attn_mask = torch.where(attn_mask, 0.0, minus_infinity)
        attn_mask = attn_mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    return aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, True, dropout_p, is_causal, scale=scale)[0]


def math_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    return aten._scaled_dot_product_attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa)[0]


def flash_or_efficient(query, key, value, attn_mask=None, **options):
    run = flash_attention if attn_mask is None else efficient_attention
    return run(query, key, value, attn_mask=attn_mask, **options)


ATTENTION = {"flash": flash_attention, "efficient": efficient_attention, "math": math_attention,
             "auto": flash_or_efficient}
torch_attention = F.scaled_dot_product_attention
find_packed_sequence_indices = masking_utils.find_packed_sequence_indices


def choose_attention(model, attn):
    """eager, auto and sdpa (PyTorch chooses) build the masks that transformers builds; the others build none."""
    F.scaled_dot_product_attention = ATTENTION.get(attn, torch_attention)
    F.dropout = gpu_dropout
    masking_utils.find_packed_sequence_indices = no_packed_sequences
    modeling = sys.modules[type(model).__module__]
    for builder in ("create_causal_mask", "create_sliding_window_causal_mask"):
        real = getattr(masking_utils, builder)
        setattr(modeling, builder, real if attn in ("eager", "auto", "sdpa") else lambda **_: None)


def gpu_dropout(tensor, p=0.5, training=True, inplace=False):
    """On a GPU the mask is boolean; on a CPU dropout draws it in the tensor's dtype."""
    return aten.native_dropout(tensor, p, True)[0] if training and p > 0 else tensor


def no_packed_sequences(position_ids):
    """A fake tensor cannot say that no sequence is packed: transformers would build a mask as if one were."""
    packed = find_packed_sequence_indices(position_ids)
    if packed is not None:
        (packed[:, -1] == 0).all()  # the question that a fake tensor does not reach


# --- loss -------------------------------------------------------------------------------------


class ChunkedLinearCrossEntropy(torch.autograd.Function):
    """Logits of one chunk at a time; both gradients are made in forward (the way of Liger)."""

    @staticmethod
    def forward(ctx, hidden, weight, labels, tokens):
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros_like(weight)
        total = 0
        for start in range(0, hidden.shape[0], CHUNK_TOKENS):
            rows = slice(start, start + CHUNK_TOKENS)
            part = hidden[rows]
            loss, grad_logits = logit_gradient(part, weight, labels[rows], tokens)
            total = total + loss
            torch.mm(grad_logits, weight, out=grad_hidden[rows])
            grad_weight += grad_logits.t() @ part
            del loss, grad_logits
        ctx.save_for_backward(grad_hidden, grad_weight)
        return total / tokens

    @staticmethod
    def backward(ctx, grad):
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden.mul_(grad), grad_weight.mul_(grad), None, None


def logit_gradient(hidden, weight, labels, tokens):
    """The summed loss of these rows, and the gradient of the mean loss by their logits."""
    logits = (hidden @ weight.t()).float()
    log_probabilities = F.log_softmax(logits, dim=-1)
    del logits
    loss = F.nll_loss(log_probabilities, labels, reduction="sum")
    column = labels[:, None]
    gradient = log_probabilities.exp_().scatter_(1, column.clamp(min=0), -1, reduce="add")
    gradient.masked_fill_(column < 0, 0)  # ignored rows
    return loss, gradient.div_(tokens).to(hidden.dtype)


def base_of(model):
    """What makes the last hidden states; Llama 4's classes name no module of theirs as it."""
    return model.base_model if model.base_model is not model else getattr(model, "language_model", model).model


def head_of(model):
    return model.lm_head if hasattr(model, "lm_head") else model.language_model.lm_head


class Step(nn.Module):
    """The model with its loss. `on_loss` is called when the logits, or the final hidden state, exist."""

    def __init__(self, model, loss, on_loss):
        super().__init__()
        self.m = model
        self.chunked = loss.startswith("chunk")
        self.on_loss = on_loss
        self.more = {}  # position_ids; pixel_values, for a model with an encoder of images
        if not self.chunked:
            head_of(model).register_forward_hook(lambda *_: on_loss())

    def forward(self, ids, labels):
        if not self.chunked:
            return self.m(input_ids=ids, labels=labels, use_cache=False, **self.more)
        hidden = base_of(self.m)(input_ids=ids, use_cache=False, **self.more).last_hidden_state
        self.on_loss()
        shifted = F.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
        tokens = labels.numel() - len(labels)  # the last of each row has no target
        return ChunkedLinearCrossEntropy.apply(
            hidden.view(-1, hidden.shape[-1]), head_of(self.m).weight, shifted.view(-1), tokens)


# --- checkpointing and sharding ---------------------------------------------------------------


class Segment(nn.Module):
    """Consecutive blocks inside one checkpoint."""

    def __init__(self, blocks):
        super().__init__()
        self.ls = nn.ModuleList(blocks)

    def forward(self, hidden_states, **kwargs):
        for block in self.ls:
            hidden_states = block(hidden_states, **kwargs)
        return hidden_states


KEPT = {torch.ops._c10d_functional.reduce_scatter_tensor.default, aten._scaled_dot_product_flash_attention.default,
        aten._scaled_dot_product_efficient_attention.default, aten._scaled_dot_product_cudnn_attention.default,
        aten._flash_attention_forward.default, aten._scaled_dot_product_flash_attention_for_cpu.default}


def torchtitan_policy():
    """Keeps fused attention, tensor parallelism's reduce-scatters and each odd mm of a block; addmm is not mm."""
    counts = defaultdict(int)

    def policy(ctx, func, *args, **kwargs):
        if func == aten.mm.default:
            counts[ctx.is_recompute] += 1
            keep = counts[ctx.is_recompute] % 2 == 1
        else:
            keep = func in KEPT
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def stack_of(model):
    """The module whose list of blocks it runs, and that list's name."""
    base = base_of(model)
    decoder = getattr(base, "decoder", base)
    decoder = getattr(decoder, "language_model", decoder)  # beside an encoder of images
    return decoder, "layers" if hasattr(decoder, "layers") else "h"


def blocks_of(model):
    return list(getattr(*stack_of(model)))


def checkpoint_blocks(model, ac):
    """Puts checkpoints around a model's blocks, or around segments of them."""
    decoder, name = stack_of(model)
    blocks = list(getattr(decoder, name))
    if ac.startswith("seg"):
        size = int(ac[3:])
        blocks = [Segment(blocks[i:i + size]) for i in range(0, len(blocks), size)]
        decoder.config.num_hidden_layers = len(blocks)
    every = {"none": 0, "full": 1, "selop": 1}.get(ac) if ac in ("none", "full", "selop") else \
        1 if ac.startswith("seg") else int(ac.removeprefix("every"))
    options = {"context_fn": torchtitan_policy} if ac == "selop" else {}
    setattr(decoder, name, nn.ModuleList(
        checkpoint_wrapper(block, preserve_rng_state=False, **options) if every and i % every == 0 else block
        for i, block in enumerate(blocks)))


def fake_mesh(sharding):
    """A process group whose collectives move nothing, seen from rank 0."""
    if sharding == "single":
        return None
    from torch.testing._internal.distributed.fake_pg import FakeStore
    world = int(sharding.removeprefix("fsdp"))
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())
    return dist.init_device_mesh("cpu", (world,))


def shard(step, blocks, mesh, case):
    """fully_shard on each block (or checkpoint segment) and on the root, which is not resharded after forward."""
    options = {"mesh": mesh}
    if case["mixed_precision"]:
        dtypes = {f"{what}_dtype": DTYPES[name] for what, name in case["mixed_precision"].items()}
        options["mp_policy"] = MixedPrecisionPolicy(**dtypes)
    units = blocks if case["fsdp_unit"] == "block" else blocks_of(step.m)
    for unit in units:
        last = unit is units[-1]
        fully_shard(unit, reshard_after_forward=not (last and case["keep_last_block"]), **options)
    fully_shard(step, reshard_after_forward=False, **options)


# --- the whole --------------------------------------------------------------------------------


def build(case, mesh, on_loss):
    config = transformers.AutoConfig.for_model(**({"model_type": MODEL_TYPES.get(case["model"])} | case["config"]))
    config._attn_implementation = "eager" if case["attn"] == "eager" else "sdpa"
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=DTYPES[case["param_dtype"]]).train()
    choose_attention(model, case["attn"])
    blocks = blocks_of(model)
    checkpoint_blocks(model, case["ac"])
    step = Step(model, case["loss"], on_loss)
    if mesh:
        shard(step, blocks, mesh, case)
    return step


def make_optimizer(case, step):
    """adamw: `fused` or `foreach`; `sgd` has no momentum, `sgd_momentum` has; both foreach, as on a GPU."""
    if case["optimizer"].startswith("sgd"):
        momentum = 0.9 if case["optimizer"] == "sgd_momentum" else 0.0
        return torch.optim.SGD(step.parameters(), lr=1e-3, momentum=momentum, foreach=True)
    return torch.optim.AdamW(step.parameters(), **{case["optimizer"]: True})


def train_step(case, step, optimizer, ids, labels, enter_phase, kept):
    """`kept` is what the loop holds until the next forward: the model's output, or its loss alone."""
    for micro_batch in range(case["grad_accum"]):
        enter_phase("forward")
        kept.clear()
        if case["no_sync"]:
            step.set_requires_gradient_sync(micro_batch + 1 == case["grad_accum"])
        out = step(ids, labels)
        loss = out if isinstance(out, torch.Tensor) else out.loss
        kept.append(loss if case["loss"] == "hf_nokeep" else out)
        del out
        enter_phase("backward")
        loss.backward()
        del loss
    enter_phase("optimizer")
    optimizer.step()
