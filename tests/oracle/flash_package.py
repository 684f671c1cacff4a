"""flash-attn 2.8.3's own Python files, which must be on PYTHONPATH (its sdist has them), over kernels that only allocate;
imported before transformers.

`flash_attn_2_cuda` is what csrc/flash_attn/flash_api.cpp allocates: mha_fwd makes the output, the log-sum-exp and the
state of the random numbers (of rows too few for the multiprocessors, parts of the keys: not stood in for), mha_bwd a sum
a row, dq in fp32, and where queries share keys their gradients for each query's head, which at::sum_out adds up. A launch
of each of its kernels is stood in for by one that fills the state.
"""

import importlib.metadata
import sys
import types

import torch

VERSION = "2.8.3"


def launch(state, times):
    for _ in range(times):
        state.fill_(0)


def fwd(q, k, v, out, alibi, dropout, scale, causal, left, right, softcap, return_softmax, generator):
    assert dropout == 0 or softcap == 0  # TORCH_CHECK of mha_fwd
    out = torch.empty_like(q)
    lse = torch.empty(q.shape[0], q.shape[2], q.shape[1], dtype=torch.float32, device="cuda")
    rng_state = torch.empty(2, dtype=torch.int64, device="cuda")
    launch(rng_state, 1)
    return out, lse, torch.empty(0, dtype=q.dtype, device="cuda"), rng_state


def bwd(dout, q, k, v, out, lse, dq, dk, dv, *more):
    batch, tokens, heads, size = q.shape
    multiple = 32 if size <= 128 else 64
    rows, width = -(-tokens // 128) * 128, -(-size // multiple) * multiple
    softmax_d = torch.empty(batch, heads, rows, dtype=torch.float32, device="cuda")
    dq_accum = torch.empty(batch, rows, heads, width, dtype=torch.float32, device="cuda")
    shared = k.shape[2] != heads
    wide = [torch.empty(*k.shape[:2], heads, size, dtype=k.dtype, device="cuda") for _ in range(2 if shared else 0)]
    launch(more[-1], 3)
    for whole, narrow in zip(wide, (dk, dv)):
        torch.sum(whole.view(*k.shape[:3], heads // k.shape[2], size), 3, out=narrow)
    del dq_accum, wide
    return dq, dk, dv, softmax_d


def missing(*_, **__):
    raise NotImplementedError


def install():
    kernels = types.ModuleType("flash_attn_2_cuda")
    kernels.fwd, kernels.bwd = fwd, bwd
    kernels.varlen_fwd = kernels.varlen_bwd = kernels.fwd_kvcache = missing
    sys.modules[kernels.__name__] = kernels
    of, distributions = importlib.metadata.version, importlib.metadata.packages_distributions
    importlib.metadata.version = lambda name: VERSION if name in ("flash-attn", "flash_attn") else of(name)
    importlib.metadata.packages_distributions = lambda: {**distributions(), "flash_attn": ["flash-attn"]}


install()
