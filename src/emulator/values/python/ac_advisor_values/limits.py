"""How large a tensor may be for its values to be computed."""

import os

import torch

#: elements of an int64 or bool tensor; a mask of 8 x 2048 x 2048 is just above it
INTEGERS = int(os.environ.get("AC_ADVISOR_EMULATOR_INTEGERS", str(32 * 1000 * 1000)))
#: … of one that may be packed weights instead
NARROW = 1 << 20
#: … of one that nearly always is: quantized weights, 8-bit states
BYTES = 1 << 16
#: elements of a float tensor: scalars, and a norm for each of a model's parameters
FLOATS = 1024

_LIMITS = {
    torch.int64: INTEGERS,
    torch.bool: INTEGERS,
    torch.int32: NARROW,
    torch.int16: NARROW,
    torch.uint16: NARROW,
    torch.uint32: NARROW,
    torch.uint64: NARROW,
    torch.uint8: BYTES,
    torch.int8: BYTES,
}


def limit(dtype):
    return _LIMITS.get(dtype, FLOATS)


def is_float(dtype):
    return dtype not in _LIMITS
