"""Wraps PyTorch's kernels for CUDA at the dispatcher."""

import warnings

import torch

from . import complete, counts, numbers, scalars
from .limits import FLOATS, limit

#: Not wrapped: what computes nothing, attention and dropout (their only integers are random states,
#: and the CPU's own random numbers must stay as they are).
_LEFT_ALONE = (
    "empty resize_ set_ record_stream _resize_output_ native_dropout _fused_dropout rrelu "
    "_scaled_dot_product _flash_attention _efficient_attention _cudnn cudnn _fill_mem_eff _cslt "
    "_transformer_encoder _triton _pin_memory _use_cudnn _thnn_fused _test"
).split()

#: Called by pow.Scalar (which is wrapped) with a number that lies on the device: Python cannot take it.
_NOT_FOR_PYTHON = {"aten::pow.Tensor_Tensor_out"}

#: Registered for every device at once.
_COMPOSITE = ["aten::copy_"]


def _writes(schema):
    """Whether the operator makes or changes a tensor (a view of one does neither)."""
    for a in schema.arguments:
        if a.alias_info is not None and a.alias_info.is_write:
            return True
    for r in schema.returns:
        if r.alias_info is not None:
            return False
    return any("Tensor" in str(r.type) for r in schema.returns)


def _is_small(value):
    if isinstance(value, torch.Tensor):
        n = value.numel()
        return 0 < n and (n <= FLOATS or n <= limit(value.dtype))
    return isinstance(value, (list, tuple)) and any(_is_small(v) for v in value)


def _one_result(original, finish):
    call = original.call_boxed

    def kernel(keys, *args, **kwargs):
        result = call(keys, *args, **kwargs)
        n = result.numel()
        if n and (n <= FLOATS or n <= limit(result.dtype)):
            finish(args, kwargs, result)
        return result

    return kernel


def _results(original, finish, written):
    call = original.call_boxed

    def kernel(keys, *args, **kwargs):
        result = call(keys, *args, **kwargs)
        if _is_small(result) or any(_is_small(t) for t in written(args, kwargs)):
            finish(args, kwargs, result)
        return result

    return kernel


def _with_numbers(kernel, places):
    """Gives numbers where the schema says Tensor the form that the original kernel takes."""
    is_number = numbers.is_number

    def run(keys, *args, **kwargs):
        taken = None
        for i in places:
            if i < len(args) and is_number(args[i]):
                if taken is None:
                    taken, args = [], list(args)
                value = args[i]
                args[i], entry = numbers.take(value)
                taken.append((value, entry))
        if taken is None:
            return kernel(keys, *args, **kwargs)
        try:
            return kernel(keys, *args, **kwargs)
        finally:
            for value, entry in taken:
                numbers.give_back(value, entry)

    return run


def _kernel(name, schema, original):
    base = name.removeprefix("aten::").split(".")[0]
    if base in scalars.KERNELS:
        return scalars.KERNELS[base](original)
    operator = complete.Operator(name, schema)
    if base in counts.COUNTS:
        return counts.kernel(operator, original, counts.COUNTS[base])
    if len(schema.returns) == 1 and str(schema.returns[0].type) == "Tensor":
        kernel = _one_result(original, operator.finish)
    else:
        kernel = _results(original, operator.finish, operator.written)
    tensors = [i for i, a in enumerate(schema.arguments) if str(a.type) == "Tensor"]
    return _with_numbers(kernel, tensors) if len(tensors) > 1 else kernel


def _wrapped_names():
    names = torch._C._dispatch_get_registrations_for_dispatch_key("CUDA")
    for name in sorted((set(names) | set(_COMPOSITE)) - _NOT_FOR_PYTHON):
        base = name.removeprefix("aten::").split(".")[0]
        if not name.startswith("aten::") or base.startswith(tuple(_LEFT_ALONE)):
            continue
        operator, _, overload = name.partition(".")
        schema = torch._C._get_schema(operator, overload)
        if base in scalars.KERNELS or _writes(schema):
            yield name, schema


_library = None


def install():
    global _library
    numbers.prepare()
    _library = torch.library.Library("aten", "IMPL")  # noqa: TOR901: kept for the process's life
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that kernels are replaced is meant
        for name, schema in _wrapped_names():
            kernel = _kernel(name, schema, torch.library.get_kernel(name, "CUDA"))
            _library.impl(
                name.removeprefix("aten::"), kernel, "CUDA", with_keyset=True, allow_override=True
            )
