"""Follows the bytes of every tensor storage, and writes what happens to them as text."""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

PHASES = ("forward", "loss", "backward", "optimizer")

NO_KERNEL = {
    "aten::_local_scalar_dense", "aten::_unsafe_view", "aten::detach", "aten::empty", "aten::empty_like",
    "aten::empty_strided", "aten::lift_fresh", "aten::new_empty", "aten::new_empty_strided", "prim::device",
}


def rounded(nbytes):
    """The CUDA caching allocator's unit is 512 B."""
    return (nbytes + 511) // 512 * 512


def local(tensor):
    """A DTensor has no memory of its own."""
    return getattr(tensor, "_local_tensor", tensor)


def launches(func):
    """One for an op that runs a kernel; none for a view, an allocation or a detach."""
    is_view = any(r.alias_info and not r.alias_info.is_write for r in func._schema.returns)
    return 0 if is_view or func._schema.name in NO_KERNEL else 1


class StorageTracker(TorchDispatchMode):
    """Adds up the bytes of every storage from its creation to its last reference, with a peak per phase."""

    def __init__(self, log=None):
        super().__init__()
        self.log = log
        self.sizes = {}  # storage number -> rounded bytes
        self.numbers = {}  # address of the StorageImpl -> storage number, while it lives
        self.live = 0
        self.created = 0
        self.phase = None  # None: between steps, nothing is counted
        self.module = ""  # the one entered last: what peak_at names
        self.inside = ""  # the one whose forward runs
        self.node_modules = {}  # autograd sequence number -> module that made the node
        self.start_step()

    def __enter__(self):
        """FSDP frees and refills its buffers with resize_, which no dispatch mode sees."""
        tracker, resize = self, torch.UntypedStorage.resize_

        def resize_and_tell(storage, nbytes):
            resize(storage, nbytes)
            number = tracker.numbers.get(storage._cdata)
            if number is not None:
                tracker.change(number, rounded(nbytes), "resize")

        self.untracked_resize = resize
        torch.UntypedStorage.resize_ = resize_and_tell
        return super().__enter__()

    def __exit__(self, *exception):
        torch.UntypedStorage.resize_ = self.untracked_resize
        return super().__exit__(*exception)

    def start_step(self):
        self.phase = None
        self.peaks = dict.fromkeys(PHASES, 0)
        self.peak_at = {}
        self.ops = dict.fromkeys(PHASES, 0)
        self.kernels = dict.fromkeys(PHASES, 0)

    def enter_phase(self, phase):
        self.phase = phase
        self.note_peak("")
        if self.log:
            self.log.phase(phase, self.live)

    def enter_module(self, name):
        self.module = self.inside = name

    def leave_module(self, name):
        self.inside = name.rpartition(".")[0]

    def note_peak(self, op):
        if self.phase is None:
            return
        if self.live > max(self.peaks.values()):
            self.peak_at = {"op": op, "module": self.module, "phase": self.phase}
        self.peaks[self.phase] = max(self.peaks[self.phase], self.live)

    def follow(self, tensor):
        """The number of the tensor's storage, and whether it is new."""
        storage = local(tensor).untyped_storage()
        key = storage._cdata
        if key in self.numbers:
            return self.numbers[key], False
        number = self.numbers[key] = self.created
        self.created += 1
        self.sizes[number] = rounded(storage.nbytes())
        self.live += self.sizes[number]
        weakref.finalize(storage, self.end, key, number).atexit = False
        return number, True

    def end(self, key, number):
        del self.numbers[key]
        self.change(number, None, "free")

    def change(self, number, size, how):
        """A size of None ends the storage."""
        old = self.sizes.pop(number)
        self.live += (size or 0) - old
        if size is not None:
            self.sizes[number] = size
            self.note_peak(how)
        if self.log:
            self.log.change(how, number, old, size, self.live)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        inputs = tensors((args, kwargs))
        for tensor in inputs:
            self.follow(tensor)
        out = func(*args, **(kwargs or {}))
        outputs = tensors(out)
        followed = [self.follow(tensor) for tensor in outputs]
        if self.phase is not None:
            self.ops[self.phase] += 1
            self.kernels[self.phase] += launches(func)
        self.note_peak(func._schema.name)
        if self.log:
            self.log.op(self, func, inputs, list(zip(outputs, followed)))
        return out

    def figures(self):
        """What pytorch_peaks.json holds of a step."""
        return {
            "peak_bytes": max(self.peaks.values()),
            **{f"peak_{phase}": self.peaks[phase] for phase in PHASES},
            "peak_at": self.peak_at,
            "ops_fwd": self.ops["forward"] + self.ops["loss"],
            "ops_bwd": self.ops["backward"],
            "kernels_fwd": self.kernels["forward"] + self.kernels["loss"],
            "kernels_bwd": self.kernels["backward"],
            "kernels_opt": self.kernels["optimizer"],
        }


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class TraceLog:
    """One line for each op of the last step, then one for each storage that ended after it.

    index phase module  op  outputs  <- inputs   live bytes
    An output is %storage[shape]:dtype, with the bytes if its storage is new and the word `view` if not.
    In backward, the module is NodeName@the module whose forward made the autograd node.
    """

    def __init__(self, path):
        self.path = path
        self.lines = None  # None: not yet the step that is wanted
        self.index = 0
        self.names = {}

    def start(self, tracker, named_tensors):
        self.lines = ["# alive before the step: %storage  bytes  name"]
        for name, tensor in named_tensors:
            number, _ = tracker.follow(tensor)
            self.names.setdefault(number, name)
        for number, size in sorted(tracker.sizes.items()):
            self.lines.append(f"#   %{number}  {size}  {self.names.get(number, '?')}")

    def write(self):
        with open(self.path, "w") as file:
            file.write("\n".join(self.lines) + "\n")

    def phase(self, phase, live):
        if self.lines is not None:
            self.lines.append(f"== {phase}  live {live}")

    def change(self, how, number, old, new, live):
        if self.lines is not None:
            size = old if new is None else f"{old} -> {new}"
            self.lines.append(f"        {how} {self.storage(number)} {size}   live {live}")

    def op(self, tracker, func, inputs, outputs):
        module = self.origin(tracker)
        if self.lines is None or tracker.phase is None or func._schema.name == "prim::device":
            return
        name = func._schema.name + ("" if func._overloadname == "default" else "." + func._overloadname)
        results = ", ".join(self.result(tracker, tensor, *followed) for tensor, followed in outputs) or "()"
        sources = " ".join(self.storage(tracker.follow(tensor)[0]) for tensor in inputs)
        kind = "" if launches(func) else "  [no kernel]"
        self.lines.append(f"{self.index:5} {tracker.phase:9} {module}  {name}  {results}  <- {sources}{kind}"
                          f"   live {tracker.live}")
        self.index += 1

    def origin(self, tracker):
        """A node made by this op has the sequence number before the next one."""
        made = torch.autograd._get_sequence_nr() - 1
        node = torch._C._current_autograd_node()
        if node is None:
            tracker.node_modules[made] = tracker.inside
            return tracker.inside
        tracker.node_modules.setdefault(made, tracker.inside)  # a recomputed forward
        return f"{node.name()}@{tracker.node_modules.get(node._sequence_nr(), '')}"

    def result(self, tracker, tensor, number, new):
        dtype = str(tensor.dtype).removeprefix("torch.")
        what = f"NEW {tracker.sizes[number]} B" if new else "view"
        return f"%{number}{list(tensor.shape)}:{dtype} {what}"

    def storage(self, number):
        name = self.names.get(number)
        return f"%{number}" + (f"({name})" if name else "")
