"""The step as the capture runs it: forward, loss, backward, under PyTorch's own profiler."""

import gc
from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils import _pytree as pytree

try:
    from ac_advisor_dryrun import emulator
except ImportError:
    emulator = None

MARK = "ac_advisor:"  # our ranges of the profiler


def launches(on):
    """Begins or ends the log of launches; its times when it ends."""
    emulator.log_launches(on)
    return [] if on else emulator.launch_times()


class Ranges:
    """A profiler range around each module's forward, named by its place in `named_modules()`, and one where each
    parameter's gradient is whole."""

    def __init__(self, model):
        self.open = []
        self.handles = []
        for number, (_, module) in enumerate(model.named_modules()):
            self.handles.append(module.register_forward_pre_hook(self.enter(number)))
            self.handles.append(module.register_forward_hook(self.leave, always_call=True))
        for number, parameter in enumerate(model.parameters()):
            if parameter.requires_grad:
                self.handles.append(parameter.register_post_accumulate_grad_hook(
                    lambda _, number=number: mark(f"gradient:{number}")))

    def enter(self, number):
        def hook(module, inputs):
            region = record_function(f"{MARK}module:{number}")
            region.__enter__()
            self.open.append(region)
        return hook

    def leave(self, module, inputs, output):
        self.open.pop().__exit__(None, None, None)

    def remove(self):
        for handle in self.handles:
            handle.remove()


def mark(name):
    with record_function(MARK + name):
        pass


def call(model, inputs):
    if isinstance(inputs, dict):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs)


def loss_of(output, loss_fn):
    if loss_fn is not None:
        return loss_fn(output)
    return output["loss"] if isinstance(output, dict) else output.loss


def addresses(values):
    """Of the storages on the device, without those of no bytes."""
    tensors = [t for t in pytree.tree_leaves(values) if isinstance(t, torch.Tensor) and t.is_cuda]
    return [t.untyped_storage().data_ptr() for t in tensors if t.untyped_storage().data_ptr()]


class Step:
    def __init__(self, model, inputs, loss_fn):
        self.model, self.inputs, self.loss_fn = model, inputs, loss_fn

    def forward(self):
        """The loss, and where the output's and the loss's storages lie while they are alive."""
        mark("forward")
        output = call(self.model, self.inputs)
        outputs = addresses(dict(output) if hasattr(output, "items") else output)
        mark("loss")
        loss = loss_of(output, self.loss_fn)
        del output
        if loss.numel() != 1:
            raise SystemExit("loss_fn: the loss has more than one element; return a scalar")
        return loss, outputs

    def run(self):
        loss, outputs = self.forward()
        where = addresses(loss)
        mark("backward")
        loss.backward()
        mark("end")
        return loss, outputs, where

    def forward_that_saves_nothing(self):
        """As a checkpoint runs it: what dies here is held by no Python code any more."""
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: None, lambda nothing: nothing):
            loss, outputs = self.forward()
        mark("backward")
        return loss, outputs, addresses(loss)


@dataclass
class Trace:
    result: object  # what was run returned
    tree: list  # of the profiler's events
    history: list  # of the allocator's requests
    launched: list  # when: nanoseconds
    blocks: dict  # bytes by address of what was allocated before


def blocks_in_use():
    return {block["address"]: block["requested_size"]
            for segment in torch.cuda.memory._snapshot()["segments"]
            for block in segment["blocks"] if block["state"] == "active_allocated"}


def traced(run):
    gc.collect()
    blocks = blocks_in_use()
    gc.disable()
    torch.cuda.memory._record_memory_history(context=None, max_entries=10_000_000, clear_history=True)
    try:
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as profiler:
            launches(True)
            with record_function(MARK + "step"):  # the tree leaves out what is freed outside of all ranges
                result = run()
            launched = launches(False)
    finally:
        gc.enable()
    history = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    return Trace(result, profiler.profiler.kineto_results.experimental_event_tree(), history, launched, blocks)
