"""Large float tensors of zeros into which a number was scattered: routers mark their choices so, and count the marks.
Such a result is computed on the CPU whatever its size."""

import torch

from .complete import _Quiet
from .known import computed, zeros
from .limits import FLOATS, INTEGERS, is_float, limit
from .twin import twin


def _is_large_float(tensor):
    return is_float(tensor.dtype) and FLOATS < tensor.numel() <= INTEGERS


def _zero(inner):
    def run(keys, tensor):
        result = inner(keys, tensor)
        if _is_large_float(tensor) and tensor.is_contiguous():
            zeros.add(tensor)
        return result

    return run


def _scatter(inner):
    def run(keys, tensor, dim, index, value):
        result = inner(keys, tensor, dim, index, value)
        if _is_large_float(result) and tensor in zeros and index.numel() <= limit(index.dtype):
            with _Quiet():
                before = torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu")
                twin(result).copy_(before.scatter_(dim, twin(index), value))
            computed.add(result)
        return result

    return run


KERNELS = {"aten::zero_": _zero, "aten::scatter.value": _scatter}
