"""Python numbers as the tensors that PyTorch made of them.

`x * 3.0` reaches a kernel as a tensor that is marked as a number, which decides the result's type. A
kernel written in Python sees 3.0 itself, and the original kernel wants the marked tensor back; torch
has no function that marks one, but an autograd node that saved one gives it out.
"""

import collections
import ctypes

import torch

_MANY = 32  # calls under way at once, in all threads


class _Complex(ctypes.Structure):
    _fields_ = [("real", ctypes.c_double), ("imag", ctypes.c_double)]


_TYPES = {float: ctypes.c_double, int: ctypes.c_int64, bool: ctypes.c_bool, complex: _Complex}
_pools = {}


def prepare():
    """Once, where autograd is on."""
    with torch.enable_grad():
        leaf = torch.ones(1, requires_grad=True, device="cpu")
        for kind, c_type in _TYPES.items():
            pool = _pools[kind] = collections.deque()
            for _ in range(_MANY):
                number = leaf.mul(kind(1)).grad_fn._saved_other
                pool.append((number, c_type.from_address(number.data_ptr())))


def is_number(value):
    return value.__class__ in _TYPES


def take(value):
    """A tensor and its place, which `give_back` wants; the tensor is good until then."""
    number, place = entry = _pools[value.__class__].popleft()
    if value.__class__ is complex:
        place.real, place.imag = value.real, value.imag
    else:
        place.value = value
    return number, entry


def give_back(value, entry):
    _pools[value.__class__].append(entry)
