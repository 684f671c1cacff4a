"""One process as rank R of N: a store that answers for the ranks that are not there."""

import importlib
import os

from . import emulator
from . import objects

UNIQUE_ID_BYTES = 128  # of NCCL
_alive = []  # stores: C++ that holds one does not keep its Python half


def install():
    import torch.distributed as dist

    if not dist.is_available():
        return
    distributed_c10d = importlib.import_module("torch.distributed.distributed_c10d")
    world = int(os.environ.get("AC_ADVISOR_EMULATOR_WORLD", "1"))
    objects.install(dist, distributed_c10d, one_process=world > 1)
    if world < 2:
        return
    # The attribute of that name is a function.
    rendezvous = importlib.import_module("torch.distributed.rendezvous")

    class Store(dist.Store):
        """Everybody has come to every barrier; what another rank would have set is zeros."""

        def __init__(self, *_, **__):
            super().__init__()
            self.values = {}
            _alive.append(self)

        def set(self, key, value):
            self.values[key] = value.encode() if isinstance(value, str) else bytes(value)

        def get(self, key):
            return self.values.get(key, bytes(UNIQUE_ID_BYTES))

        def add(self, key, amount):
            total = int(self.values.get(key, b"0")) + amount * world
            self.values[key] = str(total).encode()
            return total

        def compare_set(self, key, expected, desired):
            if self.values.get(key, b"") == _bytes(expected):
                self.values[key] = _bytes(desired)
            return self.values.get(key, _bytes(expected))

        def check(self, keys):
            return all(key in self.values for key in keys)

        def wait(self, keys, timeout=None):
            pass

        def delete_key(self, key):
            return self.values.pop(key, None) is not None

        def num_keys(self):
            return len(self.values)

        def append(self, key, value):
            self.values[key] = self.values.get(key, b"") + _bytes(value)

        def multi_get(self, keys):
            return [self.get(key) for key in keys]

        def multi_set(self, keys, values):
            for key, value in zip(keys, values):
                self.set(key, value)

        def has_extended_api(self):
            return True

        def set_timeout(self, timeout):
            pass

        def clone(self):
            return self

    def _bytes(value):
        return value.encode() if isinstance(value, str) else bytes(value)

    from torch._C._distributed_c10d import FakeProcessGroup

    # What is asked of a group of Gloo's, and that the stand-in lacks.
    for name in ("_set_sequence_number_for_group", "_set_default_timeout"):
        setattr(FakeProcessGroup, name, lambda *_: None)

    class StandsIn(type):
        def __call__(cls, store, rank, size, *_, **__):
            return FakeProcessGroup._create_internal(rank, size)

        def __instancecheck__(cls, group):
            return isinstance(group, FakeProcessGroup)

    class Gloo(metaclass=StandsIn):
        """Gloo would connect to the others; its stand-in moves nothing."""

    for module in (dist, rendezvous, distributed_c10d):
        for name in ("TCPStore", "FileStore"):
            if hasattr(module, name):
                setattr(module, name, Store)
    distributed_c10d.ProcessGroupGloo = Gloo
    tell_splits(distributed_c10d)


def tell_splits(distributed_c10d):
    """NCCL is told a color and a key alone; PyTorch (2.15) then asks how many have that color."""

    def telling(split, place):
        def told(self, *given, **named):
            ranks = given[place] if len(given) > place else named["ranks"]
            emulator.split_into(len(ranks))
            return split(self, *given, **named)

        return told

    groups = [("ProcessGroup", "split_group", 0)] + [(f"ProcessGroup{n}", "split", 1) for n in ("NCCL2", "NCCLLazy")]
    for name, method, place in groups:
        group = getattr(distributed_c10d, name, None)
        if hasattr(group, method):
            setattr(group, method, telling(getattr(group, method), place))
