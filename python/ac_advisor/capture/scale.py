"""A graph that can be planned at other batches and sequences: captured at several, and what they have in common.

docs/graphs.md says how and why so.
"""

import sys

import torch

from .align import Aligned, Differs, Numbers, groups
from .forms import form_of, is_exact, value
from .scaled import written

STEPS = (1, 8, 64)  # tried as what --seq must differ by: kernels pad sequences that are no multiple of these


def samples(batch, seq, directions, step):
    """Sizes to capture beside the first, those of one direction alone first, and those to hold out, by direction."""
    batches = [(n, seq) for n in (1, 2 * batch, 4 * batch, 8 * batch)]
    seqs = [(batch, n) for n in (2 * seq, 4 * seq, 8 * seq, seq + step, 2 * seq - step)]
    both = [(2 * batch, 2 * seq), (4 * batch, 3 * seq), (3 * batch, seq + step), (16 * batch, 8 * seq)]
    held = {"batch": (5 * batch, seq), "seq": (batch, 5 * seq - step)}
    found = {"batch": batches, "seq": seqs}
    chosen = {d: [size for size in dict.fromkeys(found[d]) if size != (batch, seq)] for d in directions}
    if len(directions) == 2:
        chosen["both"], held["both"] = both, (6 * batch, 4 * seq - step)
    return chosen, {d: held[d] for d in chosen}


class Family:
    """Graphs of one model at several sizes, each laid on the first."""

    def __init__(self, size, graph):
        self.first, self.graph = size, graph
        self.numbers = Numbers(len(graph["storages"]))
        self.graphs, self.aligned = {size: graph}, {}

    def add(self, size, graph):
        numbers = self.numbers.copy()
        self.aligned[size] = Aligned(self.graph, graph, numbers)  # Differs: nothing is added
        self.graphs[size], self.numbers = graph, numbers

    def without(self, sizes):
        other = Family(self.first, self.graph)
        for size in self.graphs:
            if size != self.first and size not in sizes:
                other.add(size, self.graphs[size])
        return other

    def storages(self):
        """Bytes by size of each storage."""
        found = {number: {self.first: bytes_} for number, bytes_ in enumerate(self.graph["storages"])}
        for size, aligned in self.aligned.items():
            for theirs, mine in aligned.storages.items():
                found.setdefault(mine, {})[size] = self.graphs[size]["storages"][theirs]
        return found

    def scratch(self):
        """Storages that the group that makes them frees, and those that only other sizes have."""
        found = set(range(self.numbers.count, self.numbers.count + len(self.numbers.known)))
        for micro in self.graph["micro_batches"]:
            for group in groups(micro):
                found |= group.scratch
        return found

    def ops(self, micro):
        """By op of the first graph: the same op by size."""
        found = [{self.first: op} for op in self.graph["micro_batches"][micro]["ops"]]
        for size, aligned in self.aligned.items():
            theirs = self.graphs[size]["micro_batches"][micro]["ops"]
            for a, b in aligned.same[micro]:
                found[a][size] = theirs[b]
        return found


def not_fitted(family):
    """The first storage that is no scratch and has no form: what is wrong, in words; empty: all have one."""
    scratch, sizes = family.scratch(), family.storages()
    makers = {s: op["op"] for micro in family.graph["micro_batches"] for op in micro["ops"] for s in op.get("out", ())}
    for number, by_size in sizes.items():
        if number in scratch or is_exact(form_of(by_size)):
            continue
        what = f"{makers[number]} makes" if number in makers else "before the step there are"
        listed = ", ".join(f"{v} bytes at {b} x {s}" for (b, s), v in sorted(by_size.items()))
        return f"{what} {listed}: no polynomial of the batch and the sequence"
    return ""


def judged(family, size, graph):
    """What the forms of `family` say of a size that they were not made from, against its own capture."""
    trial = Family(family.first, family.graph)
    trial.add(size, graph)
    scratch, counted = family.scratch(), trial.storages()
    makers = {s: op["op"] for micro in family.graph["micro_batches"] for op in micro["ops"] for s in op.get("out", ())}
    for number, by_size in family.storages().items():
        wanted = counted.get(number, {}).get(size)
        if number in scratch or wanted is None:
            continue
        said = value(form_of(by_size), *size)
        if said != wanted:
            return (f"{makers.get(number, 'what there is before the step')}: {wanted} bytes at {size[0]} x {size[1]}, "
                    f"where the other sizes say {said}")
    return ""


class Scaler:
    """Captures, and decides in which directions the graph scales."""

    def __init__(self, capture, batch, seq, directions):
        if "batch" in directions and batch == 1:  # views of one are others: what scales begins with two
            batch = 2
            print("the graph is of a batch of 2, which others are laid on", file=sys.stderr)
        self.capture, self.size, self.directions = capture, (batch, seq), directions
        self.family = Family(self.size, capture(batch, seq))
        self.refused, self.held, self.step = {}, [], 1
        self.batch_from = 1
        self.graphs = {}

    def taken(self, size):
        """The graph at a size; None where the emulated device has no room for it."""
        if size not in self.graphs:
            print(f"at {size[0]} x {size[1]}", file=sys.stderr)
            try:
                self.graphs[size] = self.capture(*size)
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()
                print("  does not fit the emulated device: left out", file=sys.stderr)
                self.graphs[size] = None
        return self.graphs[size]

    def grown(self, family, sizes, held):
        """`family` with these sizes, if all is well; else why not."""
        other = family.without(())
        try:
            for size in sizes:
                if size in other.graphs or (graph := self.taken(size)) is None:
                    continue
                try:
                    other.add(size, graph)
                except Differs as differs:
                    return None, f"at {size[0]} x {size[1]} the step is another program than at " \
                                 f"{self.size[0]} x {self.size[1]}: {differs}"
            if wrong := not_fitted(other):
                return None, wrong
            if (graph := self.taken(held)) is not None:
                if wrong := judged(other, held, graph):
                    return None, wrong
                self.held.append(held)
        except Differs as differs:
            return None, f"at {held[0]} x {held[1]} the step is another program: {differs}"
        return other, ""

    def batch(self, sizes, held):
        """Views of a batch of one are others: where that is another program, from two on."""
        one = (1, self.size[1])
        if one in sizes["batch"]:
            sizes["batch"].remove(one)
            try:
                self.family.add(one, self.taken(one))
            except Differs:
                self.batch_from = 2
        grown, why = self.grown(self.family, sizes["batch"], held["batch"])
        if grown is None:
            self.refused["batch"] = why
        else:
            self.family = grown

    def seq(self):
        """With the least of the steps by which sequences may differ."""
        for step in STEPS:
            if self.size[1] % step:
                break
            sizes, held = samples(*self.size, self.directions, step)
            grown, why = self.grown(self.family, sizes["seq"], held["seq"])
            if grown is not None:
                self.family, self.step = grown, step
                self.refused.pop("seq", None)
                return
            self.refused["seq"] = why
            if not self.fits_multiples(sizes["seq"]):
                return

    def fits_multiples(self, sizes):
        """Whether multiples of the first sequence are the same program: a larger step may help then."""
        trial = self.family.without(())
        try:
            for size in sizes:
                if size[1] % self.size[1] == 0 and (graph := self.taken(size)) is not None:
                    trial.add(size, graph)
        except Differs:
            return False
        return True

    def run(self):
        sizes, held = samples(*self.size, self.directions, 1)
        if "batch" in self.directions:
            self.batch(sizes, held)
        if "seq" in self.directions:
            self.seq()
        if len(self.directions) == 2 and not self.refused:
            sizes, held = samples(*self.size, self.directions, self.step)
            grown, why = self.grown(self.family, sizes["both"], held["both"])
            if grown is None:
                self.refused["seq"] = "together with --batch: " + why
                self.family = self.family.without(sizes["seq"])
            else:
                self.family = grown
        return self


def capture_scaled(capture, batch, seq, directions):
    """`capture(batch, seq)` makes a graph. The graph at this size, with what it is at others."""
    return written(Scaler(capture, batch, seq, directions).run())
