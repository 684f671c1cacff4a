"""Floating-point operations of an op, by the shapes of what it reads."""

import math

import torch

PRODUCTS = {"aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::addmm": (1, 2), "aten::baddbmm": (1, 2),
            "aten::_grouped_mm": (0, 1), "aten::_scaled_mm": (0, 1), "aten::_addmm_activation": (1, 2)}


def product_of(name, shapes):
    """[rows, columns, inner] of a matrix product, batches in the rows; None for another op."""
    if name not in PRODUCTS:
        return None
    left, right = (shapes[i] for i in PRODUCTS[name])
    if left is None or right is None or not left or not right:
        return None
    return [math.prod(left[:-1]), right[-1], left[-1]]


def _is_causal(name, inputs):
    packet = getattr(torch.ops.aten, name.removeprefix("aten::"), None)
    names = [a.name for a in packet.default._schema.arguments] if packet is not None else []
    place = names.index("is_causal") if "is_causal" in names else -1
    return 0 <= place < len(inputs) and inputs[place] is True


def flops_of(name, shapes, inputs, made):
    """Of attention and convolution, counted as their papers do; 0 for what memory decides. `made`: elements of
    the first result."""
    backward = "backward" in name
    if "_scaled_dot_product_" in name and "attention" in name:
        q, k, v = shapes[1:4] if backward else shapes[:3]
        if not (q and k and v):
            return 0
        forward = 2 * math.prod(q[:-1]) * k[-2] * (q[-1] + v[-1])
        return forward * (2.5 if backward else 1) * (0.5 if _is_causal(name, inputs) else 1)
    if name == "aten::convolution" and shapes[1]:
        return 2 * made * math.prod(shapes[1][1:])
    if name == "aten::convolution_backward" and shapes[0] and shapes[2]:
        return 4 * math.prod(shapes[0]) * math.prod(shapes[2][1:])
    return 0
