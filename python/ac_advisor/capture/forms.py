"""How a whole number depends on the batch and the sequence: found from its values at the sizes that were captured.

A form is a polynomial with rational coefficients, of the batch b and the sequence s, or of s rounded up or down to a
multiple; it is taken where it gives every captured value to the unit and there are at least two values more than it
has terms. The buffer of a sum over tokens that several thread blocks share is a `reduction`: PyTorch's rule of how many
do (aten/src/ATen/native/cuda/Reduce.cuh, v2.11, setReduceConfig). What is neither is `points`: its values, between
which the planner goes along the tokens. Tokens are the rows of most matrix products: b * s, of images their patches.
"""

import functools
import itertools
from collections import Counter
from fractions import Fraction
from math import lcm

import torch

# Powers of b and s. Images have s * s patches, attention without a kernel of its own their square.
POWERS = ((0, 0), (1, 1), (1, 0), (0, 1), (1, 2), (0, 2), (2, 0), (2, 2), (1, 4), (0, 4))
MOST_TERMS = 3
SPARE = 2  # values beyond the terms
MULTIPLES = (2, 4, 8, 16, 32, 64, 128, 256)
ROUNDINGS = [(None, 1)] + [(way, m) for m in MULTIPLES for way in ("ceil", "floor")]


def rounded(s, way, multiple):
    return s if way is None else (s + (multiple - 1 if way == "ceil" else 0)) // multiple * multiple


def solve(rows, values):
    """The unique solution of a consistent system of whole numbers; None where there is none."""
    width = len(rows[0])
    matrix = [[Fraction(x) for x in row] + [Fraction(v)] for row, v in zip(rows, values)]
    for column in range(width):
        pivot = next((i for i in range(column, len(matrix)) if matrix[i][column]), None)
        if pivot is None:
            return None
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        for i in range(column + 1, len(matrix)):
            if factor := matrix[i][column] / matrix[column][column]:
                matrix[i] = [a - factor * b for a, b in zip(matrix[i], matrix[column])]
    if any(row[width] for row in matrix[width:]):
        return None
    found = [Fraction(0)] * width
    for i in reversed(range(width)):
        rest = sum(matrix[i][j] * found[j] for j in range(i + 1, width))
        found[i] = (matrix[i][width] - rest) / matrix[i][i]
    return found


@functools.cache
def columns(sizes, way, multiple):
    """By power, its value at each size; powers that cannot be told from one before them are left out."""
    found = {}
    for i, j in POWERS:
        column = tuple(b**i * rounded(s, way, multiple)**j for b, s in sizes)
        if not any(is_multiple(column, other) for other in found.values()):
            found[i, j] = column
    return found


def is_multiple(a, b):
    return all(x * b[0] == y * a[0] for x, y in zip(a, b))


@functools.cache
def bases(sizes, way, multiple, count):
    """Each choice of `count` powers, and an orthonormal basis of what it spans, in floating point."""
    powers = columns(sizes, way, multiple)
    chosen = list(itertools.combinations(powers, count))
    if not chosen:
        return chosen, None
    every = torch.tensor(list(powers.values()), dtype=torch.float64)
    every /= every.norm(dim=1, keepdim=True)
    places = torch.tensor(list(itertools.combinations(range(len(powers)), count)))
    stacked = every[places].mT  # (choices, sizes, powers)
    return chosen, torch.linalg.qr(stacked)[0]


def near(sizes, values, way, multiple, count):
    """The choices of powers that may give the values: what is far off is not solved exactly."""
    chosen, basis = bases(sizes, way, multiple, count)
    if basis is None:
        return []
    wanted = torch.tensor(values, dtype=torch.float64)
    rest = wanted - (basis @ (basis.mT @ wanted).unsqueeze(-1)).squeeze(-1)
    off = rest.norm(dim=1) / wanted.norm()
    return [one for one, residual in zip(chosen, off.tolist()) if residual < 1e-6]


@functools.cache
def distinct_roundings(sizes):
    """Without those that at these sizes do as one before them."""
    found = {}
    for way, multiple in ROUNDINGS:
        found.setdefault(tuple(rounded(s, way, multiple) for _, s in sizes), (way, multiple))
    return list(found.values())


@functools.cache
def polynomial(sizes, values):
    """As the file has it; None: there is none."""
    for way, multiple in distinct_roundings(sizes):
        powers = columns(sizes, way, multiple)
        for count in range(1, MOST_TERMS + 1):
            if len(sizes) < count + SPARE:
                break
            for chosen in near(sizes, values, way, multiple, count):
                found = solve(list(zip(*(powers[p] for p in chosen))), values)
                if found is not None and all(found):
                    over = lcm(*(f.denominator for f in found))
                    form = {"terms": [[int(f * over), i, j] for f, (i, j) in zip(found, chosen)]}
                    return form | ({"over": over} if over > 1 else {}) | ({way: multiple} if way else {})
    return None


VALUES_PER_THREAD = 16  # Reduce.cuh has them between 16 and 256: 16 times as many


def blocks_of_reduction(tokens, per, most):
    """Of threads, for an output: `per` tokens each until they fill the device."""
    return max(min(most, -(-tokens // per)), -(-tokens // (VALUES_PER_THREAD * per)))


@functools.cache
def reduction(tokens_of, values):
    """[bytes of a block's part, tokens a block, most blocks]; None: it is no such buffer."""
    by_tokens = sorted(zip(tokens_of, values))
    tokens, least = by_tokens[0]
    if len({t for t, _ in by_tokens}) < 3 + SPARE:
        return None
    for per in (2**k for k in range(18)):
        unit, rest = divmod(least, -(-tokens // per))
        if rest or not unit:
            continue
        for most in sorted({v // unit for v in values}):
            if all(v == unit * blocks_of_reduction(t, per, most) for t, v in by_tokens):
                return {"reduction": [unit, per, most]}
    return None


def tokens_of(products):
    """The form of the rows of most products; each is its [rows, columns, inner] by size."""
    counted = Counter(tuple(sorted((size, product[0]) for size, product in one.items())) for one in products)
    for rows, _ in counted.most_common():
        form = form_of(dict(rows))
        if not isinstance(form, int) and "terms" in form:
            return form
    return {"terms": [[1, 1, 1]]}


def form_of(values, tokens=None):
    """`values`: by size. A number where it is the same at all sizes. `tokens`: their form, for what has no polynomial."""
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    sizes = tuple(sorted(values))
    in_order = tuple(values[size] for size in sizes)
    if (found := polynomial(sizes, in_order)) is None and tokens is not None:
        found = reduction(tuple(value(tokens, *size) for size in sizes), in_order)
    return found or {"points": [[b, s, values[b, s]] for b, s in sizes]}


def is_exact(form):
    return isinstance(form, int) or "terms" in form


def value(form, b, s):
    """What a form that is exact says; None where that is no whole number."""
    if isinstance(form, int):
        return form
    for way in ("ceil", "floor"):
        if way in form:
            s = rounded(s, way, form[way])
    total, over = sum(c * b**i * s**j for c, i, j in form["terms"]), form.get("over", 1)
    return total // over if total % over == 0 else None
