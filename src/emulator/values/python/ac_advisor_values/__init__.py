"""Keeps small values on the emulated device true.

Kernels do not compute there. What a program reads back and acts on does: positions, masks, counts of
tokens, routing. Every kernel of PyTorch for CUDA that can write such a value is wrapped at the
dispatcher: the real one runs first, so that allocations and launches are its own, then the same
operator runs on the CPU over the same memory, which the emulated device maps into the process.

- integers and booleans: true as long as a tensor has at most `limits.INTEGERS` elements
- floats: those of at most `limits.FLOATS` elements are computed too, from what is known; a large
  float tensor is not, and counts as 1 wherever a small value is made of it (a loss, a norm, an
  overflow check)
- indices chosen by floats (a router's experts): in turn, so that every choice is made equally often
"""

import os

__all__ = ["install"]


def install():
    if os.environ.get("AC_ADVISOR_EMULATOR_VALUES", "1") == "0":
        return
    from . import emulator, wrap

    if emulator.present():
        wrap.install()
