"""What a step launched on a real device, by phase, as Kineto has it: kernels, memory sets, copies on the device."""

import torch
from torch.autograd import DeviceType

PHASE = "gpu_day:"  # what the ranges that mark phases are called


class Recorded:
    """Between start() and stop() the marks of a step open a range each."""

    def __init__(self):
        self.range = None
        self.profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA])

    def start(self):
        torch.cuda.synchronize()
        self.profiler.__enter__()

    def enter(self, phase):
        if self.range is not None:
            self.range.__exit__(None, None, None)
        self.range = None if phase is None else torch.profiler.record_function(PHASE + phase)
        if self.range is not None:
            self.range.__enter__()

    def stop(self):
        self.enter(None)
        torch.cuda.synchronize()
        self.profiler.__exit__(None, None, None)
        return by_phase(self.profiler.profiler.kineto_results.events())


def kind(name):
    """An index into [kernels, memory sets, copies on the device]; None: to or from the host."""
    if name.startswith("Memset"):
        return 1
    if name.startswith("Memcpy"):
        return 2 if "DtoD" in name else None
    return 0


def by_phase(events):
    """{phase: [kernels, memory sets, copies]}; what was issued outside of every phase is under ""."""
    events = list(events)
    on_host = [e for e in events if e.device_type() == DeviceType.CPU]
    phases = [(e.name()[len(PHASE):], e.start_ns(), e.start_ns() + e.duration_ns())
              for e in on_host if e.name().startswith(PHASE)]
    issued = {e.correlation_id(): e.start_ns() for e in on_host if e.name().startswith("cu")}
    found = {}
    for e in events:
        if e.device_type() != DeviceType.CUDA or e.is_user_annotation() or (which := kind(e.name())) is None:
            continue
        at = issued.get(e.correlation_id(), e.start_ns())
        phase = next((name for name, begin, end in phases if begin <= at <= end), "")
        found.setdefault(phase, [0, 0, 0])[which] += 1
    return found


