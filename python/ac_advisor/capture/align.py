"""The same model's graph at another size, laid on the graph at the first size: which op is which, which storage.

Ops are compared in groups: an op of the dispatcher with all of its entries. What a group frees itself is scratch, and
may be other at another size, as may be views; a storage that outlives its group must be there at both.
"""

import difflib
from dataclasses import dataclass, field


class Differs(Exception):
    """The step at the other size is another program; says where."""


@dataclass
class Group:
    key: tuple
    first: int
    entries: list
    kept: list = field(default_factory=list)  # storages that outlive it
    scratch: set = field(default_factory=set)

    @property
    def end(self):
        return self.first + len(self.entries)


def groups(micro):
    found = []
    for number, op in enumerate(micro["ops"]):
        key = (op["op"], op["phase"], op.get("module", 0))
        node = (op.get("node", -1), op.get("forward", -1))
        goes_on = (found and found[-1].key == key and not any(k in op for k in ("in", "product", "flops"))
                   and "frees" in found[-1].entries[-1]
                   and node == tuple(found[-1].entries[-1].get(k, -1) for k in ("node", "forward")))
        if goes_on:
            found[-1].entries.append(op)
        else:
            found.append(Group(key, number, [op]))
    for group in found:
        freed = {s for op in group.entries for s in op.get("frees", ())}
        made = [s for op in group.entries for s in op.get("out", ())]
        group.scratch = set(made) & freed
        group.kept = [s for s in made if s not in freed]
    return found


def pairs(base, other):
    """Runs of groups: (base's, other's). A run of one and one is the same op; others have no counterpart."""
    if [g.key for g in base] == [g.key for g in other]:
        return [([a], [b]) for a, b in zip(base, other)]
    matcher = difflib.SequenceMatcher(None, [g.key for g in base], [g.key for g in other], autojunk=False)
    found = []
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        if tag == "equal":
            found += [([x], [y]) for x, y in zip(base[a:a_end], other[b:b_end])]
        else:
            found.append((base[a:a_end], other[b:b_end]))
    return found


@dataclass
class Run:
    """What stands at one size in the place of base[at : at + count], where that is not the same."""
    at: int
    count: int
    first: int  # of the ops at the other size
    ops: list  # in the base's numbers of storages; tensors are (storage, dtype, shape)
    signature: tuple = ()
    scratch: list = field(default_factory=list)  # (place in the signature, bytes)


class Numbers:
    """Numbers of the first graph's storages and, beyond them, of scratch that only others have."""

    def __init__(self, count):
        self.count, self.known = count, {}

    def of(self, key):
        return self.known.setdefault(key, self.count + len(self.known))

    def copy(self):
        other = Numbers(self.count)
        other.known = dict(self.known)
        return other


class Aligned:
    """One graph laid on another. `same`: by micro-batch, (base's op, other's op) that are the same; `runs`: where
    they are not; `storages`: base's number by other's."""

    def __init__(self, base, other, numbers):
        self.base, self.other, self.numbers = base, other, numbers
        for key in ("modules", "blocks"):
            if base[key] != other[key]:
                raise Differs(f"its {key} are others")
        self.storages = {}
        self.residents()
        self.same, self.runs = [], []
        for micro in range(len(base["micro_batches"])):
            Walk(self, micro).run()

    def residents(self):
        for key in ("parameters", "buffers", "inputs", "others"):
            if len(self.base[key]) != len(self.other[key]):
                raise Differs(f"it has {len(self.other[key])} {key}, not {len(self.base[key])}")
            for mine, theirs in zip(self.base[key], self.other[key]):
                self.resident(key, mine, theirs)

    def resident(self, key, mine, theirs):
        if key == "others":
            self.storages[theirs] = mine
            return
        if key == "parameters":
            if (mine["name"], mine["trained"]) != (theirs["name"], theirs["trained"]):
                raise Differs("its parameters are others")
            mine, theirs = mine["tensor"], theirs["tensor"]
        mine, theirs = self.base["tensors"][mine], self.other["tensors"][theirs]
        if mine["dtype"] != theirs["dtype"] or len(mine["shape"]) != len(theirs["shape"]):
            raise Differs(f"its {key} look otherwise")
        self.storages[theirs["storage"]] = mine["storage"]


class Walk:
    """One micro-batch."""

    def __init__(self, aligned, number):
        self.a, self.number = aligned, number
        self.base, self.other = (g["micro_batches"][number] for g in (aligned.base, aligned.other))
        self.nodes = {}  # base's by other's
        self.moved = []  # by base's op: the other's op that stands for it
        self.same, self.runs = [], []

    def run(self):
        for mine, theirs in pairs(groups(self.base), groups(self.other)):
            if len(mine) == len(theirs) == 1:
                self.pair(mine[0], theirs[0])
            else:
                self.unlike(mine, theirs)
        self.ends()
        self.a.same.append(self.same)
        self.a.runs.append(self.runs)

    def pair(self, mine, theirs):
        if len(mine.kept) != len(theirs.kept):
            raise Differs(f"{mine.key[0]} leaves {len(theirs.kept)} storages, not {len(mine.kept)}")
        self.a.storages.update(zip(theirs.kept, mine.kept))
        alike = len(mine.entries) == len(theirs.entries) and all(
            len(x.get("out", ())) == len(y.get("out", ())) for x, y in zip(mine.entries, theirs.entries))
        if alike:
            for x, y in zip(mine.entries, theirs.entries):
                self.a.storages.update(zip(y.get("out", ()), x.get("out", ())))
        for entry in theirs.entries:
            if "node" in entry and "node" in mine.entries[0]:
                self.nodes.setdefault(entry["node"], mine.entries[0]["node"])
        if alike and all(self.is_same(x, y) for x, y in zip(mine.entries, theirs.entries)):
            for place in range(len(mine.entries)):
                self.same.append((mine.first + place, theirs.first + place))
                self.moved.append(theirs.first + place)
            return
        self.replaced(mine.first, len(mine.entries), theirs.first, theirs.entries)

    def unlike(self, mine, theirs):
        """Views alone, or what leaves nothing."""
        for group in mine + theirs:
            if group.kept:
                raise Differs(f"{group.key[0]} of the {group.key[1]} runs at one of the two sizes alone")
        count = sum(len(g.entries) for g in mine)
        at = mine[0].first if mine else len(self.moved)
        first = theirs[0].first if theirs else None
        self.replaced(at, count, first, [op for g in theirs for op in g.entries])

    def storage(self, number):
        return self.a.storages.get(number, -1)

    def is_same(self, mine, theirs):
        for key in ("out", "frees", "drops"):
            if list(mine.get(key, ())) != [self.storage(s) for s in theirs.get(key, ())]:
                return False
        ins = mine.get("in", ()), theirs.get("in", ())
        if len(ins[0]) != len(ins[1]):
            return False
        for t, u in zip(*ins):
            t, u = self.a.base["tensors"][t], self.a.other["tensors"][u]
            if (t["storage"], t["dtype"], len(t["shape"])) != (self.storage(u["storage"]), u["dtype"], len(u["shape"])):
                return False
        if ("product" in mine, "flops" in mine) != ("product" in theirs, "flops" in theirs):
            return False
        forward = mine.get("forward", -1)
        return (mine.get("node", -1) == self.nodes.get(theirs.get("node", -1), -1)
                and (self.moved[forward] if forward >= 0 else -1) == theirs.get("forward", -1))

    def replaced(self, at, count, first, entries):
        local, scratch, shown, ops = {}, [], [], []
        for entry in entries:
            for s in entry.get("out", ()):
                if s not in self.a.storages:
                    local[s] = len(scratch)
                    scratch.append(self.a.other["storages"][s])
        known = lambda s: self.a.storages.get(s, ("scratch", local.get(s)))  # noqa: E731
        for entry in entries:
            looks = [self.a.other["tensors"][t] for t in entry.get("in", ())]
            shown.append((entry["op"], *(tuple(map(known, entry.get(k, ()))) for k in ("out", "frees", "drops")),
                          tuple((known(t["storage"]), t["dtype"], len(t["shape"])) for t in looks),
                          self.node(entry), entry.get("forward", -1), "product" in entry, "flops" in entry))
        signature = (self.number, at, count, tuple(shown))
        numbers = {s: self.a.numbers.of((signature, place)) for s, place in local.items()}
        self.a.storages.update(numbers)
        for entry in entries:
            op = {k: v for k, v in entry.items() if k not in ("in", "out", "frees", "drops", "node")}
            for key in ("out", "frees", "drops"):
                if key in entry:
                    op[key] = [self.storage(s) for s in entry[key]]
            if "in" in entry:
                looks = [self.a.other["tensors"][t] for t in entry["in"]]
                op["in"] = [(self.storage(t["storage"]), t["dtype"], tuple(t["shape"])) for t in looks]
            if "node" in entry:
                op["node"] = self.node(entry)
            ops.append(op)
        if any(-1 in op.get(key, ()) for op in ops for key in ("out", "frees", "drops")):
            raise Differs(f"{entries[0]['op']} frees what the other size does not have")
        if ops or count:
            self.runs.append(Run(at, count, first, ops, signature, [(numbers[s], self.a.other["storages"][s])
                                                                     for s in local]))
        last = first + len(entries) - 1 if entries else (self.moved[-1] if self.moved else 0)
        self.moved += [last] * count

    def node(self, entry):
        if "node" not in entry:
            return -1
        beyond = 1 + max((op.get("node", -1) for op in self.base["ops"]), default=-1)
        return self.nodes.get(entry["node"], beyond + entry["node"])

    def ends(self):
        """What the micro-batch leaves must be the same."""
        mine = [[p, s, self.moved[op]] for p, s, op in self.base["gradients"]]
        theirs = [[p, self.storage(s), op] for p, s, op in self.other["gradients"]]
        if mine != theirs:
            raise Differs("its gradients are others")
        left = [self.storage(s) for s in [*self.other["outputs"], self.other["loss"]]]
        if left != [*self.base["outputs"], self.base["loss"]]:
            raise Differs("its outputs are others")
