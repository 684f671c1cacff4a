"""flash_attn's functions by PyTorch's copy of its kernels, for Transformer Engine; imported before it.

FlashAttnFunc saves q, k, v, the output, the log-sum-exp and the state of the random numbers. What mha_fwd and mha_bwd of
flash-attn 2 allocate is what aten's do: the gradients, softmax_d, dq in fp32 (by splits where deterministic).
"""

import importlib.machinery
import importlib.metadata
import sys
import types

import torch

VERSION = "2.7.4"


class FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, dropout, scale, causal, window):
        out, lse, state, offset, _ = torch.ops.aten._flash_attention_forward(
            q, k, v, None, None, q.shape[1], k.shape[1], dropout, causal, False, scale=scale, window_size_left=window[0],
            window_size_right=window[1])
        ctx.save_for_backward(q, k, v, out, lse, state)
        ctx.values = dropout, causal, scale, window
        ctx.offset = offset
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse, state = ctx.saved_tensors
        dropout, causal, scale, window = ctx.values
        grads = torch.ops.aten._flash_attention_backward(
            grad, q, k, v, out, lse, None, None, q.shape[1], k.shape[1], dropout, causal, state, ctx.offset, scale=scale,
            window_size_left=window[0], window_size_right=window[1])
        return *grads, None, None, None, None


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), **_):
    return FlashAttention.apply(q, k, v, dropout_p, softmax_scale, causal, window_size)


def forward(q, k, v, dropout_p, softmax_scale, causal, **_):
    out, lse, state, *_ = torch.ops.aten._flash_attention_forward(
        q, k, v, None, None, q.shape[1], k.shape[1], dropout_p, causal, False, scale=softmax_scale)
    return out, lse, None, state


def backward(grad, q, k, v, out, lse, dq, dk, dv, dropout_p, softmax_scale, causal, rng_state=None, **_):
    """Into gradients that are there, which aten's would make; what the kernel allocates for itself (mha_bwd)."""
    batch, queries, heads, size = q.shape
    rows, width = -(-queries // 128) * 128, -(-size // 32) * 32
    splits = 1
    if torch.are_deterministic_algorithms_enabled():
        processors = torch.cuda.get_device_properties("cuda").multi_processor_count
        splits = (processors + batch * heads - 1) // (batch * heads)
    sums = torch.empty(batch, heads, rows, dtype=torch.float32, device="cuda")
    queries_wide = torch.empty(splits, batch, rows, heads, width, dtype=torch.float32, device="cuda")
    wide = k.shape[2] != heads
    expanded = [torch.empty(*k.shape[:2], heads, size, dtype=k.dtype, device="cuda") for _ in range(2) if wide]
    del sums, queries_wide, expanded


def missing(*_, **__):
    raise NotImplementedError


def install():
    package, interface = types.ModuleType("flash_attn"), types.ModuleType("flash_attn.flash_attn_interface")
    interface.flash_attn_func = flash_attn_func
    interface._flash_attn_forward, interface._flash_attn_backward = forward, backward
    for name in ("flash_attn_varlen_func", "_flash_attn_varlen_forward", "_flash_attn_varlen_backward",
                 "flash_attn_with_kvcache", "flash_attn_unpadded_func"):
        setattr(interface, name, missing)
    kernels = types.ModuleType("flash_attn_2_cuda")
    kernels.varlen_bwd = missing
    package.flash_attn_interface, package.__path__, package.__version__ = interface, [], VERSION
    sys.modules |= {"flash_attn": package, interface.__name__: interface, kernels.__name__: kernels}
    for module in (package, interface, kernels):
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
    of = importlib.metadata.version
    importlib.metadata.version = lambda name: VERSION if name == "flash-attn" else of(name)


install()
