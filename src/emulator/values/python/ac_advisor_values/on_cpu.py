"""Operators of CUDA that the CPU does not have for these types, written with those that it has."""

import torch


def _histc(tensor, bins=100, min=0, max=0):
    return torch.ops.aten.histc.default(tensor.double(), bins, min, max).to(tensor.dtype)


def _amp_update_scale_(scale, growth_tracker, found_inf, growth, backoff, interval):
    """As AmpKernels.cu: halved after an overflow, doubled after `interval` steps without."""
    if found_inf.item():
        scale.mul_(backoff)
        growth_tracker.zero_()
        return scale
    growth_tracker.add_(1)
    if growth_tracker.item() == interval:
        scale.mul_(growth)
        growth_tracker.zero_()
    return scale


SUBSTITUTES = {"aten::histc": _histc, "aten::_amp_update_scale_": _amp_update_scale_}
