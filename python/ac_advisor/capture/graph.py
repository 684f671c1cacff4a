"""The graph at one size: what docs/schema/graph-1.json describes."""

import bisect
import gc
import sys

import torch

from .blocks import find_blocks
from .events import Tables, read_events
from .step import Ranges, Step, emulator, traced

SCHEMA = "ac-advisor/graph/1"
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def build(make_model, batch, seq, dtype):
    """The model, its inputs and its loss on the device, in training mode."""
    if torch.version.cuda is None:
        sys.exit(f"PyTorch {torch.__version__} of {torch.__path__[0]} is built without CUDA: install one that has it")
    if emulator is None or not emulator.present() or not torch.cuda.is_available():
        sys.exit("no emulated device: start this with `ac-advisor import -- python -m ac_advisor.capture …`, which "
                 "emulates one")
    with torch.device("cuda"):
        module, inputs, loss_fn = make_model(batch, seq)
    module.to("cuda")
    if dtype:
        module.to(DTYPES[dtype])
    on_device = torch.utils._pytree.tree_map(lambda t: t.cuda() if isinstance(t, torch.Tensor) else t, inputs)
    return module.train(), on_device, loss_fn


class Residents:
    """What exists before the step: parameters, buffers and inputs, each storage once."""

    def __init__(self, module, inputs, tables):
        self.tables, self.alive = tables, {}
        self.parameters = [
            {"name": name, "tensor": self.declare(tensor), "trained": tensor.requires_grad}
            for name, tensor in module.named_parameters()]
        # A table that a module keeps as an attribute, and no buffer, is found when it is read.
        self.buffers = self.unique(module.buffers())
        self.inputs = self.unique(t for t in torch.utils._pytree.tree_leaves(inputs) if isinstance(t, torch.Tensor))

    def declare(self, tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.alive:
            self.alive[storage.data_ptr()] = self.tables.storage(storage.nbytes())
        return self.tables.tensor(self.alive[storage.data_ptr()], str(tensor.dtype), tensor.shape)

    def unique(self, tensors):
        found = []
        for tensor in tensors:
            if tensor.is_cuda and tensor.numel() and tensor.untyped_storage().data_ptr() not in self.alive:
                found.append(self.declare(tensor))
        return found


def gradients(module, reader):
    """[parameter, storage, the op after which it is whole] of those that have one."""
    return [[number, reader.alive[p.grad.untyped_storage().data_ptr()], reader.whole[number]]
            for number, p in enumerate(module.parameters()) if p.grad is not None]


def micro_batch(step, residents, tables, before):
    """A forward and a backward; `before`: gradients of the micro-batches before, by address."""
    trace = traced(step.run)
    loss, outputs, where = trace.result
    declared = residents.alive | before
    reader = read_events(trace, tables, declared)
    residents.alive |= reader.unknown
    at_loss = reader.found["loss"]
    here_before = set(declared.values()) | set(reader.unknown.values())
    made = gradients(step.model, reader)
    micro = {
        "ops": reader.ops,
        "outputs": [at_loss[a] for a in dict.fromkeys(outputs) if at_loss.get(a) not in here_before | {None}],
        "loss": reader.alive[where[0]],
        "gradients": made,
    }
    of_storage = {storage: address for address, storage in reader.alive.items()}
    del loss
    return micro, {of_storage[storage]: storage for _, storage, _ in made}, sorted(reader.unknown.values())


def forward_of(ops):
    return [op for op in ops if op.phase != "backward" and op.name != "aten::detach"]


def add_drops(step, residents, micro_batches):
    """Where in forward each storage is let go of by Python, though autograd still holds it: what dies there when
    autograd saves nothing, which a checkpoint's first forward does not."""
    trace = traced(step.forward_that_saves_nothing)
    tables = Tables()
    other = forward_of(read_events(trace, tables, {a: tables.storage(0) for a in residents.alive}).ops)
    for micro in micro_batches:
        own = forward_of(micro["ops"])
        if [(op.name, len(op.makes)) for op in own] != [(op.name, len(op.makes)) for op in other]:
            sys.exit("two forwards of the model are not alike: what it launches must not depend on chance or state")
        same = {theirs: mine for a, b in zip(own, other) for mine, theirs in zip(a.makes, b.makes)}
        freed = {storage for op in own for storage in op.frees}
        for a, b in zip(own, other):
            a.drops = [same[s] for s in b.frees if s in same and same[s] not in freed]


def written(op, shift):
    """As JSON: what is empty is left out."""
    entry = {"op": op.name, "phase": op.phase}
    if op.module:
        entry["module"] = op.module
    for key, value in (("in", op.reads), ("out", op.makes), ("frees", op.frees), ("drops", op.drops),
                       ("launches", op.launches), ("product", op.product), ("flops", op.flops)):
        if value:
            entry[key] = value
    if op.phase == "backward" and op.node >= 0:
        entry["node"] = op.node
        if op.forward >= 0:
            entry["forward"] = shift[op.forward]
    return entry


def write_micro_batch(micro):
    """Backward's views are left out: they neither make nor launch, and no node is theirs."""
    ops = micro["ops"]
    kept = [i for i, op in enumerate(ops) if op.phase != "backward" or op.makes or op.launches or op.frees]
    shift = {old: new for new, old in enumerate(kept)}
    whole = [[parameter, storage, bisect.bisect_right(kept, op) - 1] for parameter, storage, op in micro["gradients"]]
    return micro | {"ops": [written(ops[i], shift) for i in kept], "gradients": whole}


def capture(make_model, batch, seq, dtype=None, blocks=None):
    module, inputs, loss_fn = build(make_model, batch, seq, dtype)
    repeated = find_blocks(module, blocks)
    step = Step(module, inputs, loss_fn)
    for _ in range(2):  # what is made once: workspaces of cuBLAS, tables that are kept
        step.run()
        module.zero_grad(set_to_none=True)
    gc.collect()
    tables = Tables()
    residents = Residents(module, inputs, tables)
    ranges = Ranges(module)
    first, made, others = micro_batch(step, residents, tables, {})
    second, _, more = micro_batch(step, residents, tables, made)
    module.zero_grad(set_to_none=True)
    add_drops(step, residents, (first, second))
    ranges.remove()
    return {
        "schema": SCHEMA,
        "made_by": {"torch": torch.__version__, "gpu": torch.cuda.get_device_name()},
        "batch": batch,
        "seq": seq,
        "modules": [{"path": path, "class": type(m).__name__} for path, m in module.named_modules()],
        "blocks": repeated,
        "storages": tables.bytes,
        "tensors": [{"storage": s, "dtype": d, "shape": list(shape)} for s, d, shape in tables.tensors],
        "parameters": residents.parameters,
        "buffers": residents.buffers,
        "inputs": residents.inputs,
        "others": others + more,
        "micro_batches": [write_micro_batch(micro) for micro in (first, second)],
    }
