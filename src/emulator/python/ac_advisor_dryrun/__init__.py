"""What `ac-advisor dryrun` asks of PyTorch's own counters, in the program's process.

Nothing that the program does or sees is changed: its peaks are kept for it where this package resets
the allocator's, and its steps are told from the calls that it makes itself.
"""

__all__ = ["install"]


def install():
    from . import emulator

    if not emulator.present():
        return
    from . import ranks, steps

    steps.install()
    ranks.install()
