"""What Megatron-core takes of Apex, where Apex is not: its layer norms by PyTorch's, its causal softmax by Transformer Engine's,
its products that add into fp32 by cuBLAS through PyTorch.

They save and allocate alike: a norm its input and two fp32 values a row, the softmax its output; the softmax's backward is
in place, and the product is one call of PyTorch's own cuBLAS handle (fused_weight_gradient_dense_cuda.cu). Imported before
megatron.core.
"""

import importlib.machinery
import sys
import types

import torch
import torch.nn.functional as F


class FusedLayerNormAffineFunction:
    @staticmethod
    def forward(ctx, given, weight, bias, shape, eps, memory_efficient):
        """Its arguments are looked at."""

    @staticmethod
    def apply(given, weight, bias, shape, eps, _=False):
        return F.layer_norm(given, shape, weight, bias, eps)


class FastLayerNormFN:
    @staticmethod
    def forward(ctx, given, weight, bias, eps, memory_efficient):
        """As above."""

    @staticmethod
    def apply(given, weight, bias, eps, *_):
        return F.layer_norm(given, weight.shape, weight, bias, eps)


def softmax(scores, scale):
    import transformer_engine_torch
    return transformer_engine_torch.scaled_upper_triang_masked_softmax_forward(scores, float(scale))


def softmax_backward(grads, kept, scale):
    import transformer_engine_torch
    return transformer_engine_torch.scaled_upper_triang_masked_softmax_backward(grads, kept, float(scale))


def add_product(given, grads, main):
    """main += grads^T x given, of rows."""
    rows = [x.view(-1, x.shape[-1]) for x in (grads, given)]
    torch.ops.aten.addmm.dtype_out(main, rows[0].t(), rows[1], torch.float32, out=main)


def batch_per_block(_, keys, *__):
    """A warp has a row of over 128 scores, or two rows."""
    return 4 if keys > 128 else 8


def install():
    found = {
        "apex": {}, "apex.normalization": {}, "apex.contrib": {}, "apex.contrib.layer_norm": {},
        "apex.normalization.fused_layer_norm": {"FusedLayerNormAffineFunction": FusedLayerNormAffineFunction},
        "apex.contrib.layer_norm.layer_norm": {"FastLayerNormFN": FastLayerNormFN},
        "scaled_upper_triang_masked_softmax_cuda": {"forward": softmax, "backward": softmax_backward},
        "scaled_masked_softmax_cuda": {"get_batch_per_block": batch_per_block},
        "fused_weight_gradient_mlp_cuda": {"wgrad_gemm_accum_fp32": add_product},
    }
    for name, values in found.items():
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(values, __path__=[],
                                          __spec__=importlib.machinery.ModuleSpec(name, None))


install()
