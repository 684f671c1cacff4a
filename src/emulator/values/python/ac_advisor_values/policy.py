"""What stands in where a value depends on floats that nobody computed."""

import torch

from .twin import twin

#: Operators whose integer or boolean result of a large float tensor is that of ones: comparisons,
#: tests for NaN and infinity (so that every check finds finite numbers), conversions.
OF_ONES = frozenset(
    """eq ne lt le gt ge isnan isinf isposinf isneginf signbit logical_not logical_and logical_or
    logical_xor any all bucketize searchsorted count_nonzero isin isclose copy_ is_nonzero equal
    where allclose""".split()
)

#: Over too large a tensor: what says that nothing is amiss.
NEUTRAL = {"any": False, "all": True}


def _in_turn(indices, choices):
    """0, 1, … choices - 1, 0, 1, … in the order of memory: rows of k take k different ones each, and
    over all rows every choice is taken equally often (to within one)."""
    flat = torch.arange(indices.numel(), dtype=torch.int64) % max(choices, 1)
    twin(indices).copy_(flat.view(indices.shape))


def _in_turn_along(indices, choices, dim):
    """As `_in_turn`, where those of one row lie along `dim`."""
    if indices.dim() == 0:
        twin(indices).zero_()
        return
    shape = indices.movedim(dim, -1).shape
    flat = torch.arange(indices.numel(), dtype=torch.int64) % max(choices, 1)
    twin(indices).copy_(flat.view(shape).movedim(-1, dim))


def _size(tensor, dim):
    return tensor.size(dim) if tensor.dim() else 1


def _topk(args, kwargs, result):
    dim = args[2] if len(args) > 2 else kwargs.get("dim", -1)
    _in_turn_along(result[1], _size(args[0], dim), dim)


def _multinomial(args, kwargs, result):
    _in_turn(result, _size(args[0], -1))


def _sort(args, kwargs, result):
    """Stays as it was, which is a permutation as every sort's indices are."""
    indices = result[1]
    named = [a for a in args[1:] if isinstance(a, int) and not isinstance(a, bool)]
    dim = named[0] if named else kwargs.get("dim", -1)
    if indices.dim() == 0:
        twin(indices).zero_()
        return
    shape = [1] * indices.dim()
    shape[dim] = indices.size(dim)
    row = torch.arange(indices.size(dim), dtype=torch.int64).view(shape)
    twin(indices).copy_(row.expand(indices.shape))


def _argmax(args, kwargs, result):
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    _in_turn(result, args[0].numel() if dim is None else _size(args[0], dim))


def _extreme(args, kwargs, result):
    if isinstance(result, tuple):
        _in_turn(result[1], _size(args[0], args[1] if len(args) > 1 else kwargs.get("dim", -1)))


#: Operators that choose indices by floats, whichever size these have.
ROUTING = {"topk": _topk, "multinomial": _multinomial}
#: … by floats that are not known.
CHOOSING = {
    "sort": _sort,
    "argsort": _sort,
    "argmax": _argmax,
    "argmin": _argmax,
    "max": _extreme,
    "min": _extreme,
    "median": _extreme,
    "mode": _extreme,
    "kthvalue": _extreme,
    "cummax": _extreme,
    "cummin": _extreme,
}
