"""Steps and their phases, told from calls to the autograd engine and to optimizers.

A step ends with an optimizer step; further ones without a backward in between belong to it. What
lies between a backward and an optimizer step (clipping, unscaling) is the optimizer's, what lies
before a backward is the forward's. Which of the two it is shows only when it is over.
"""

import atexit
import functools
import os
import sys

import torch

from . import allocator, emulator

PHASES = ("forward", "backward", "optimizer")
_LAUNCHES = ("kernel", "memory_set", "copy_on_device")
_HOST_COPIES = ("copy_to_host", "copy_from_host")


class _Phase:
    def __init__(self):
        self.allocated = self.reserved = 0
        self.launches = self.host_copies = self.host_bytes = 0

    def add(self, peaks, counts):
        self.allocated = max(self.allocated, peaks[0])
        self.reserved = max(self.reserved, peaks[1])
        self.launches += sum(counts[a][0] for a in _LAUNCHES)
        self.host_copies += sum(counts[a][0] for a in _HOST_COPIES)
        self.host_bytes += sum(counts[a][1] for a in _HOST_COPIES)


class _Run:
    """The program so far: the stretch that is under way, the step that it is in."""

    def __init__(self):
        self.segment = "undecided"
        self.step = 0
        self.phases = {p: _Phase() for p in PHASES}
        self.stepped = False  # an optimizer has stepped; a backward begins the next step
        self.depth = {"backward": 0, "optimizer": 0}
        self.counts = emulator.counts()
        self.pending = {}  # device → peaks of the stretch, where the program has reset them
        self.life = {}  # device → [allocated, reserved, phase, step] at the highest point

    def absorb(self, device):
        peaks = allocator.take(device)
        old = self.pending.get(device, (0, 0))
        self.pending[device] = (max(peaks[0], old[0]), max(peaks[1], old[1]))

    def close(self, phase):
        """Ends the stretch; it belonged to `phase`."""
        for device in allocator.devices():
            self.absorb(device)
        counts = emulator.counts()
        spent = {a: (n - self.counts[a][0], b - self.counts[a][1]) for a, (n, b) in counts.items()}
        self.counts = counts
        highest = max(self.pending.values(), default=(0, 0))
        highest = (highest[0], max((p[1] for p in self.pending.values()), default=0))
        if phase is not None:
            self.phases[phase].add(highest, spent)
        for device, (allocated, reserved) in self.pending.items():
            life = self.life.setdefault(device, [0, 0, None, 0])
            if allocated > life[0]:
                life[0], life[2], life[3] = allocated, phase, self.step
            life[1] = max(life[1], reserved)
        self.pending = {}
        if self.segment == "undecided" and phase is not None:
            emulator.fold("undecided", phase)

    def enter(self, segment, ended):
        """The stretch that ends belonged to the phase `ended`."""
        self.close(ended)
        self.tell_life()  # the process may be killed in what follows
        self.segment = segment
        emulator.segment(segment)

    def finish_step(self):
        emulator.step_ends(self.step)
        emulator.line(
            kind="step",
            index=self.step,
            phases={
                name: {
                    "peak_allocated_bytes": p.allocated,
                    "peak_reserved_bytes": p.reserved,
                    "launches": p.launches,
                    "host_copies": p.host_copies,
                    "host_bytes": p.host_bytes,
                }
                for name, p in self.phases.items()
            },
        )
        self.step += 1
        self.stepped = False
        self.phases = {p: _Phase() for p in PHASES}

    def tell_life(self):
        for device, (allocated, reserved, phase, step) in self.life.items():
            emulator.line(
                kind="allocator",
                device=device,
                peak_allocated_bytes=allocated,
                peak_reserved_bytes=reserved,
                peak_phase=phase or "",
                peak_step=step,
                **allocator.now(device),
            )


_run = _Run()


def _begin(kind):
    run = _run
    run.depth[kind] += 1
    if run.depth[kind] > 1:
        return
    if run.segment == "undecided":
        if kind == "backward" and run.stepped:
            run.finish_step()
        ended = "forward" if kind == "backward" else "optimizer"
        run.enter(kind, ended)
    else:  # an optimizer step from inside backward, or the other way round
        run.enter(kind, run.segment)


def _end(kind):
    run = _run
    run.depth[kind] -= 1
    if run.depth[kind] > 0:
        return
    outer = next((k for k, depth in run.depth.items() if depth > 0), "undecided")
    run.enter(outer, kind)
    if kind == "optimizer":
        run.stepped = True


def _around_backward(function):
    @functools.wraps(function)
    def run_backward(*args, **kwargs):
        _begin("backward")
        try:
            return function(*args, **kwargs)
        finally:
            _end("backward")

    return run_backward


def _around_construction(function):
    """What came before the first optimizer is the set-up, of no phase."""

    @functools.wraps(function)
    def construct(self, *args, **kwargs):
        function(self, *args, **kwargs)
        if _run.segment == "undecided" and _run.step == 0 and not _run.stepped:
            _run.close(None)

    return construct


def _out_of_memory(device, requested, total, free):
    emulator.line(
        kind="out_of_memory",
        device=device,
        requested_bytes=requested,
        device_free_bytes=free,
        phase="forward" if _run.segment == "undecided" else _run.segment,
        step=_run.step,
        **allocator.now(device),
    )


def _tell():
    if _run.stepped and _run.segment == "undecided":
        _run.finish_step()
    _run.close(None if _run.segment == "undecided" else _run.segment)
    _run.tell_life()


def _at_exit():
    _tell()
    emulator.last()


def _around_exit(exit_now, process):
    """os._exit runs nothing that is registered for the end; what a fork's child has is its parent's."""

    def told(status):
        try:
            if os.getpid() == process:
                _tell()
        finally:
            exit_now(status)

    return told


def _before_exec(event, _):
    """The process becomes another program, unless that cannot be started."""
    if event == "os.exec":
        _tell()


def install():
    emulator.line(kind="torch", version=torch.__version__)
    allocator.install(_run.absorb)
    emulator.segment("undecided")
    # torch.autograd.backward and .grad call it by the name that their module imported.
    import torch.autograd as autograd
    import torch.autograd.graph as graph

    wrapped = _around_backward(graph._engine_run_backward)
    graph._engine_run_backward = autograd._engine_run_backward = wrapped

    from torch.optim import optimizer

    optimizer.Optimizer.__init__ = _around_construction(optimizer.Optimizer.__init__)
    optimizer.register_optimizer_step_pre_hook(lambda *_: _begin("optimizer"))
    optimizer.register_optimizer_step_post_hook(lambda *_: _end("optimizer"))
    torch.cuda._lazy_call(
        lambda: torch._C._cuda_attach_out_of_memory_observer(_out_of_memory)
    )
    atexit.register(_at_exit)
    sys.addaudithook(_before_exec)
    os._exit = _around_exit(os._exit, os.getpid())

