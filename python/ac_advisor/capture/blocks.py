"""Which modules a checkpoint is put around: those that are named, or those that repeat."""

import re
import sys
from collections import defaultdict


def named(modules, pattern):
    found = [number for number, (path, _) in enumerate(modules) if re.fullmatch(pattern, path)]
    if not found:
        sys.exit(f"--blocks {pattern}: no module's path is matched; they are such as {modules[-1][0]!r}")
    paths = [modules[number][0] for number in found]
    inside = [(a, b) for a in paths for b in paths if b.startswith(a + ".")]
    if inside:
        sys.exit(f"--blocks {pattern}: {inside[0][1]} is inside of {inside[0][0]}; match one of them")
    return found


def repeated(modules):
    """Children of one list that are of one class and have children themselves, the outermost of them."""
    lists = defaultdict(list)
    for number, (path, module) in enumerate(modules):
        parent, _, last = path.rpartition(".")
        if last.isdigit() and next(module.children(), None) is not None:
            lists[parent, type(module)].append(number)
    found = []
    for numbers in lists.values():
        inside = any(modules[numbers[0]][0].startswith(modules[outer][0] + ".") for outer in found)
        if len(numbers) > 1 and not inside:
            found += numbers
    return sorted(found)


def find_blocks(model, pattern):
    """Their numbers in `named_modules()`."""
    modules = list(model.named_modules())
    return named(modules, pattern) if pattern else repeated(modules)
