"""Peaks of the caching allocator between two marks, from its own counters.

Reading a peak of a stretch of time means to reset it at the stretch's beginning. The program has
peaks and resets of its own: they are kept beside, and PyTorch's functions answer from both.
"""

import torch

_stats = torch._C._cuda_memoryStats
_reset = torch._C._cuda_resetPeakMemoryStats
_theirs = {}  # device → {path: peak since the program's own reset}


def _leaves(node, path=()):
    """Paths and counters: {"current", "peak", "allocated", "freed"}."""
    for name, child in node.items():
        if isinstance(child, dict):
            if "peak" in child:
                yield path + (name,), child
            else:
                yield from _leaves(child, path + (name,))


def devices():
    return range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()


def take(device):
    """Peaks of allocated and reserved bytes since the last call."""
    stats = _stats(device)
    kept = _theirs.setdefault(device, {})
    for path, counter in _leaves(stats):
        kept[path] = max(kept.get(path, 0), counter["peak"])
    _reset(device)
    return (stats["allocated_bytes"]["all"]["peak"], stats["reserved_bytes"]["all"]["peak"])


def now(device):
    stats = _stats(device)
    return {
        "allocated": stats["allocated_bytes"]["all"]["current"],
        "reserved": stats["reserved_bytes"]["all"]["current"],
        "retries": stats["num_alloc_retries"],
        "out_of_memory": stats["num_ooms"],
    }


def install(before_reset):
    """`before_reset(device)` is called before the program's own reset takes peaks away."""

    def stats_for_program(device):
        stats = _stats(device)
        kept = _theirs.get(device, {})
        for path, counter in _leaves(stats):
            counter["peak"] = max(counter["peak"], kept.get(path, 0))
        return stats

    def reset_for_program(device):
        before_reset(device)
        _theirs.pop(device, None)

    torch._C._cuda_memoryStats = stats_for_program
    torch._C._cuda_resetPeakMemoryStats = reset_for_program
    if hasattr(torch._C, "_accelerator_getDeviceStats"):
        torch._C._accelerator_getDeviceStats = stats_for_program
        torch._C._accelerator_resetPeakStats = reset_for_program
