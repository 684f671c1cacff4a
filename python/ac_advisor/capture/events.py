"""The profiler's tree of events as a list of ops, with what each makes and what dies after it.

An op is the outermost of the dispatcher's ops that is not composed of others ("CompositeImplicitAutograd":
linear, matmul, reshape, …). What it allocates is its result, or scratch that dies before the next op. Where
it frees and allocates in turn it is written as several entries, so that no two overlap that did not.
"""

import functools
from collections import defaultdict
from dataclasses import dataclass, field

import torch
from torch._C._profiler import _EventType

from .products import flops_of, product_of
from .step import MARK

ENGINE = "autograd::engine::evaluate_function: "
ALLOCATION, TORCH_OP = _EventType.Allocation, _EventType.TorchOp


@dataclass
class Op:
    name: str
    start: int
    phase: str = "forward"
    module: int = 0
    reads: list = field(default_factory=list)  # tensors
    makes: list = field(default_factory=list)  # storages
    frees: list = field(default_factory=list)
    drops: list = field(default_factory=list)  # frees of a forward that saves nothing
    launches: int = 0
    node: int = -1  # of autograd, in the order of execution
    forward: int = -1  # the op whose node it is
    product: list = None
    flops: float = 0
    shapes: list = field(default_factory=list)
    inputs: list = field(default_factory=list)


# Flash attention's seed and offset are uint64. A graph has the signed ones: only the width is planned.
AS_WIDE = {"uint64": "int64", "uint32": "int32", "uint16": "int16"}


class Tables:
    """Storages and tensors by number, for all micro-batches of a graph."""

    def __init__(self):
        self.bytes = []
        self.tensors = {}

    def storage(self, size):
        self.bytes.append(size)
        return len(self.bytes) - 1

    def tensor(self, storage, dtype, shape):
        name = dtype.removeprefix("torch.")
        return self.tensors.setdefault((storage, AS_WIDE.get(name, name), tuple(shape)), len(self.tensors))


@functools.cache
def overloads():
    """The dispatcher's names by op: those of out= and of named dimensions left out."""
    found = defaultdict(list)
    for name in torch._C._dispatch_get_all_op_names():
        op, _, overload = name.partition(".")
        if "out" not in overload and "imname" not in overload:
            found[op].append(name)
    return found


@functools.cache
def is_composite(name):
    """Whether all overloads that eager mode calls are composed of other ops."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    names = overloads()[name]
    return bool(names) and all(has_kernel(n, "CompositeImplicitAutograd") for n in names)


class Reader:
    """Walks one tree. `alive`: storages that are declared, by address, and `blocks`: bytes of all, when it begins."""

    def __init__(self, tables, alive, blocks, history):
        self.tables, self.alive, self.blocks = tables, dict(alive), blocks
        # The profiler tells the size of the allocator's block, the history what was asked for.
        self.requests = iter([e for e in history if e["action"] == "alloc"])
        self.ops, self.unknown, self.found = [], {}, {}
        self.whole = {}  # gradients, by parameter: the op after which each is
        self.phase, self.module, self.node, self.nodes = "forward", 0, None, 0
        self.unit = None
        self.sequence_event, self.sequence_op = {}, {}

    # --- events -------------------------------------------------------------------------------

    def walk(self, events):
        for event in events:
            self.event(event)

    def event(self, event):
        kind = event.tag  # its fields are made anew whenever they are asked for
        if kind == ALLOCATION:
            return self.allocation(event)
        if kind != TORCH_OP:
            return self.walk(event.children)
        name = event.name
        if name.startswith(MARK):
            return self.marked(event)
        if name.startswith(ENGINE):
            return self.autograd_node(event)
        self.torch_op(event, name)

    def marked(self, event):
        what = event.name.removeprefix(MARK)
        if what == "step":
            return self.walk(event.children)
        if what.startswith("gradient:"):
            self.whole[int(what.removeprefix("gradient:"))] = len(self.ops) - 1
            return
        if not what.startswith("module:"):
            self.phase = what
            self.found[what] = dict(self.alive)
            return
        before, self.module = self.module, int(what.removeprefix("module:"))
        self.walk(event.children)
        self.module = before

    def autograd_node(self, event):
        before = self.node
        self.node = (self.nodes, self.sequence_op.get(event.typed[1].sequence_number, -1))
        self.nodes += 1
        self.walk(event.children)
        self.node = before

    def torch_op(self, event, name):
        sequence = event.typed[1].sequence_number if self.phase != "backward" else -1
        if sequence >= 0:
            self.sequence_event[sequence] = event
        inside = self.unit is not None
        dispatched = "::" in name and not name.startswith("profiler::")
        if not inside and dispatched and not is_composite(name):
            self.unit = self.begin(event)
        self.walk(event.children)
        if not inside:
            self.unit = None
        if sequence >= 0 and self.sequence_event[sequence] is event:
            self.sequence_op[sequence] = len(self.ops) - 1

    # --- ops ----------------------------------------------------------------------------------

    def new_op(self, name, start):
        op = Op(name, start, self.phase, self.module)
        if self.node is not None:
            op.node, op.forward = self.node
        self.ops.append(op)
        return op

    def begin(self, event):
        op = self.new_op(event.name, event.start_time_ns)
        op.inputs = list(event.typed[1].inputs)
        for value in op.inputs:
            op.shapes.append(list(value.sizes) if hasattr(value, "sizes") else None)
            for tensor in value if isinstance(value, (list, tuple)) else [value]:
                if hasattr(tensor, "sizes"):
                    self.read(op, tensor)
        op.product = product_of(op.name, op.shapes)
        return op

    def read(self, op, tensor):
        address = tensor.storage_data_ptr
        if not address or tensor.device.type != "cuda":
            return
        storage = self.alive.get(address)
        if storage is None:
            if address not in self.blocks:
                return  # not the caching allocator's
            storage = self.unknown[address] = self.alive[address] = self.tables.storage(self.blocks[address])
        number = self.tables.tensor(storage, str(tensor.dtype), tensor.sizes)
        if number not in op.reads:
            op.reads.append(number)

    # --- memory -------------------------------------------------------------------------------

    def allocation(self, event):
        fields = event.typed[1]
        if fields.device.type != "cuda":
            return
        if fields.alloc_size < 0:
            storage = self.alive.pop(fields.ptr, None)
            if storage is not None and self.ops:
                self.ops[-1].frees.append(storage)
            return
        request = next(self.requests)
        if request["addr"] != fields.ptr:
            raise SystemExit("the profiler and the allocator's history do not agree: is another thread allocating?")
        storage = self.alive[fields.ptr] = self.tables.storage(request["size"])
        op = self.ops[-1] if self.ops else None
        if op is None or op.frees or (self.unit is None and op.name != "allocation"):
            op = self.new_op(self.unit.name if self.unit else "allocation", event.start_time_ns)
        op.makes.append(storage)


def count_launches(ops, times):
    """Each launch belongs to the op that began last: kernels of extensions and of Triton have none of their own."""
    at = 0
    for time in times:
        while at + 1 < len(ops) and ops[at + 1].start <= time:
            at += 1
        if ops:
            ops[at].launches += 1


def count_flops(ops, tables):
    for op in ops:
        made = 0
        if op.makes and op.inputs and hasattr(op.inputs[0], "dtype"):
            made = tables.bytes[op.makes[0]] // op.inputs[0].dtype.itemsize
        if op.inputs:  # not of a further entry of the same op
            op.flops = flops_of(op.name, op.shapes, op.inputs, made)
        op.shapes = op.inputs = None


def read_events(trace, tables, alive):
    """The ops; which addresses were alive at each mark; what was read that nobody declared."""
    reader = Reader(tables, alive, trace.blocks, trace.history)
    reader.walk(trace.tree)
    count_launches(reader.ops, trace.launched)
    count_flops(reader.ops, tables)
    return reader
