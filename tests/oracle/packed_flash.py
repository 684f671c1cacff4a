"""flash_attn's functions for transformers' "flash_attention_2", by PyTorch's copy of its kernels; imported before it.

FlashAttnVarlenFunc of flash-attn 2 saves q, k, v, the output, the log-sum-exp, where the sequences begin and the state of
the random numbers, and so does this; the longest's length stays a tensor where it was given as one. What mha_varlen_fwd
and mha_varlen_bwd of flash-attn 2 allocate is what aten's do.
"""

import importlib.machinery
import importlib.metadata
import sys
import types

import torch

VERSION = "2.7.4"


class FlashAttentionVarlen(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, starts_q, starts_k, longest_q, longest_k, dropout, scale, causal):
        out, lse, state, _, _ = torch.ops.aten._flash_attention_forward(
            q, k, v, starts_q, starts_k, int(longest_q), int(longest_k), dropout, causal, False, scale=scale)
        ctx.save_for_backward(q, k, v, out, lse, starts_q, starts_k, state)
        ctx.values = longest_q, longest_k, dropout, causal, scale
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse, starts_q, starts_k, state = ctx.saved_tensors
        longest_q, longest_k, dropout, causal, scale = ctx.values
        grads = torch.ops.aten._flash_attention_backward(
            grad, q, k, v, out, lse, starts_q, starts_k, int(longest_q), int(longest_k), dropout, causal, state,
            torch.empty(0, device=q.device), scale=scale)
        return *grads, *[None] * 7


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
                           softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                           deterministic=False, return_attn_probs=False, block_table=None):
    return FlashAttentionVarlen.apply(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p,
                                      softmax_scale, causal)


def missing(*_, **__):
    raise NotImplementedError


def install():
    package, padding = types.ModuleType("flash_attn"), types.ModuleType("flash_attn.bert_padding")
    package.flash_attn_varlen_func, package.flash_attn_func, package.flash_attn_with_kvcache = (
        flash_attn_varlen_func, missing, missing)
    padding.pad_input = padding.unpad_input = missing
    package.bert_padding, package.__path__, package.__version__ = padding, [], VERSION
    sys.modules |= {"flash_attn": package, padding.__name__: padding}
    for module in (package, padding):
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
    of, distributions = importlib.metadata.version, importlib.metadata.packages_distributions
    importlib.metadata.version = lambda name: VERSION if name in ("flash-attn", "flash_attn") else of(name)
    importlib.metadata.packages_distributions = lambda: {**distributions(), "flash_attn": ["flash-attn"]}


install()
