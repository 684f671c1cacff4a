"""tests/oracle's scripts on the device that is here: a real one, or the emulated one, where each is run unchanged."""

import importlib
import json
import os

import torch
import torch.distributed as dist

import ac_advisor_dryrun
import emulated_peaks

from .cases import config_of
from .launches import Recorded

REAL = "real_device" in (ac_advisor_dryrun.__file__ or "")
POWER = 0.02  # of the numbers that stand for weights: products of zeros take less power, and less time


def fill(module):
    with torch.no_grad():
        for parameter in module.parameters():
            local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
            if local.is_floating_point():
                local.normal_(1.0 if local.dim() == 1 else 0.0, POWER)


def on_device(module, *rest, **options):
    PLAIN_ON_DEVICE(module, *rest, **options)
    fill(module)


def start_ranks(world=None):
    """One rank of so many, whose collectives nothing answers: memory is the same as with NCCL's."""
    from torch.testing._internal.distributed.fake_pg import FakeStore
    world = world or int(os.environ["WORLD_SIZE"])
    dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())


def third_step(found):
    """emulated_peaks.steps with one step more, in which Kineto counts launches; it gives no peaks."""
    def steps(entry, marks, build, count=None, pause=None):
        done = [0]
        recorded = Recorded()

        class Marks:
            def __getattr__(self, name):
                return getattr(marks, name)

            def __setattr__(self, name, value):
                setattr(marks, name, value)

            def enter(self, phase):
                last = done[0] == 2
                if last and phase == "forward" and recorded.range is None:
                    recorded.start()
                marks.enter(phase)
                if last and phase is not None:
                    recorded.enter(phase)
                if phase is None:
                    if last:
                        found.update(recorded.stop())
                    done[0] += 1

        return PLAIN_STEPS(entry, Marks(), build, count=3)[:2]

    return steps


def measure(script, case, launches):
    """The figures of a case as its script measures it; on a real device launches are Kineto's, where asked for."""
    module = importlib.import_module(script)
    run = getattr(module, "measure", emulated_peaks.measure)
    if not (launches and REAL):
        figures = run(case)
        if REAL:
            del figures["launches"]
        return figures
    found = {}
    figures = emulated_peaks.measure(case, steps=third_step(found))
    return figures | {"launches": found}


def named(case):
    """What stands for a case's model where a name is expected: it may be a sample model's, and cut."""
    return json.dumps(case)


def sample_config(name):
    if name.startswith("{"):
        return config_of(json.loads(name))
    return PLAIN_CONFIG(name)


PLAIN_ON_DEVICE, PLAIN_STEPS, PLAIN_CONFIG = emulated_peaks.on_device, emulated_peaks.steps, emulated_peaks.config_of
emulated_peaks.on_device, emulated_peaks.start_ranks, emulated_peaks.config_of = on_device, start_ranks, sample_config
