"""What docs/schema/graph-2.json describes: the graph at its first size, and what is other at others."""

from .forms import form_of, tokens_of

SCHEMA = "ac-advisor/graph/2"


class Forms:
    def __init__(self, tokens):
        self.tokens = tokens
        self.list, self.known = [], {}

    def place(self, form):
        key = repr(form)
        if key not in self.known:
            self.known[key] = len(self.list)
            self.list.append(form)
        return self.known[key]

    def of(self, values):
        """The place of its form; -1 where it is the same at all sizes."""
        form = form_of(values, self.tokens)
        return -1 if isinstance(form, int) else self.place(form)

    def constant(self, number):
        return self.place({"terms": [[number, 0, 0]]})


class Looks:
    """Tensors by what they look like at every size: two that are alike at the first may differ at others."""

    def __init__(self, family):
        self.family, self.tensors, self.shapes = family, {}, []

    def number(self, storage, dtype, shapes):
        key = (storage, dtype, tuple(sorted(shapes.items())))
        if key not in self.tensors:
            self.tensors[key] = len(self.shapes)
            self.shapes.append((storage, dtype, shapes))
        return self.tensors[key]

    def of_first(self, tensor, others):
        """`others`: the same tensor's number at other sizes."""
        graph = self.family.graph["tensors"][tensor]
        shapes = {self.family.first: tuple(graph["shape"])}
        for size, number in others.items():
            shapes[size] = tuple(self.family.graphs[size]["tensors"][number]["shape"])
        return self.number(graph["storage"], graph["dtype"], shapes)


def same_tensors(family, looks):
    """Sets the tensors of what exists before the step and of all ops anew."""
    written = dict(family.graph)
    for key in ("parameters", "buffers", "inputs"):
        found = []
        for place, one in enumerate(family.graph[key]):
            number = (lambda x: x["tensor"] if key == "parameters" else x)  # noqa: E731
            others = {size: number(graph[key][place]) for size, graph in family.graphs.items() if size != family.first}
            tensor = looks.of_first(number(one), others)
            found.append(one | {"tensor": tensor} if key == "parameters" else tensor)
        written[key] = found
    written["micro_batches"] = []
    for micro in range(len(family.graph["micro_batches"])):
        ops = []
        for by_size in family.ops(micro):
            op = dict(by_size[family.first])
            if "in" in op:
                op["in"] = [looks.of_first(t, {size: o["in"][place] for size, o in by_size.items()
                                               if size != family.first}) for place, t in enumerate(op["in"])]
            ops.append(op)
        written["micro_batches"].append(family.graph["micro_batches"][micro] | {"ops": ops})
    return written


def op_forms(by_place, forms):
    """Of ops by place and size: what is not the same at all sizes."""
    found = {"products": [], "flops": [], "launches": []}
    for place, by_size in by_place:
        ops = list(by_size.items())
        products = [forms.of({size: op["product"][k] for size, op in ops}) for k in range(3)] \
            if "product" in ops[0][1] else [-1]
        if any(form >= 0 for form in products):
            constant = [ops[0][1]["product"][k] for k in range(3)]
            found["products"].append([place, *(f if f >= 0 else forms.constant(c) for f, c in zip(products, constant))])
        for key, names in (("flops", "flops"), ("launches", "launches")):
            if any(key in op for _, op in ops):
                form = forms.of({size: int(op.get(key, 0)) for size, op in ops})
                if form >= 0:
                    found[names].append([place, form])
    return {key: entries for key, entries in found.items() if entries}


def programs(family, looks, forms):
    """The sizes whose steps are other than the first's in scratch, views and launches, and in what."""
    by_signature = {}
    for size, aligned in family.aligned.items():
        signature = tuple(run.signature for runs in aligned.runs for run in runs)
        if signature:
            by_signature.setdefault(signature, []).append(size)
    found = []
    for sizes in by_signature.values():
        micro_batches = []
        for micro in range(len(family.graph["micro_batches"])):
            runs, by_place = [], []
            for number, run in enumerate(family.aligned[sizes[0]].runs[micro]):
                ops = []
                for place, op in enumerate(run.ops):
                    same = {size: family.aligned[size].runs[micro][number].ops[place] for size in sizes}
                    op = dict(op)
                    if "in" in op:
                        op["in"] = [looks.number(s, dtype, {size: o["in"][k][2] for size, o in same.items()})
                                    for k, (s, dtype, _) in enumerate(op["in"])]
                    ops.append(op)
                    by_place.append((run.first + place, same))
                runs.append({"at": run.at, "count": run.count, "ops": ops})
            micro_batches.append({"runs": runs} | op_forms(by_place, forms))
        found.append({"sizes": [list(size) for size in sizes], "micro_batches": micro_batches})
    return found


def written(scaler):
    family = scaler.family
    forms = Forms(tokens_of([{size: op["product"] for size, op in by_size.items()} for by_size in family.ops(0)
                             if "product" in by_size[family.first]]))
    looks = Looks(family)
    graph = same_tensors(family, looks)
    micro_batches = [op_forms(enumerate(family.ops(micro)), forms) for micro in range(len(graph["micro_batches"]))]
    others = programs(family, looks, forms)
    storages = family.storages()
    first = family.first
    of_first = lambda by_size: by_size.get(first, next(iter(by_size.values())))  # noqa: E731
    graph["schema"] = SCHEMA
    graph["storages"] = [of_first(storages[number]) for number in range(len(storages))]
    graph["tensors"] = [{"storage": s, "dtype": d, "shape": list(of_first(shapes))} for s, d, shapes in looks.shapes]
    in_programs = {size for program in others for size in map(tuple, program["sizes"])}
    graph["scale"] = {
        "directions": [d for d in scaler.directions if d not in scaler.refused],
        "refused": scaler.refused,
        "batch_from": scaler.batch_from,
        "seq_step": scaler.step,
        "sizes": [list(size) for size in family.graphs if size not in in_programs],
        "held_out": [list(size) for size in scaler.held],
        "storages": [[number, form] for number in range(len(storages)) if (form := forms.of(storages[number])) >= 0],
        "tensors": [[number, place, form] for number, (_, _, shapes) in enumerate(looks.shapes)
                    for place in range(len(of_first(shapes)))
                    if (form := forms.of({size: shape[place] for size, shape in shapes.items()})) >= 0],
        "micro_batches": micro_batches,
        "programs": others,
    }
    graph["scale"] |= {"tokens": forms.place(forms.tokens), "forms": forms.list}
    return graph
