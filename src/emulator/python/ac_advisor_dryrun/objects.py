"""Objects that ranks send each other are real, also where the other ranks are not there.

A kernel that does not run moves nothing, so what a rank unpickles would be what it held before. Under torchrun the
others are there, and their objects come through the store. Where one process stands for a rank, the one that it waits
for is run as well, from the program's beginning until it has sent: a pipeline's later stages learn so the shapes that
come to them.
"""

import os
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path

from . import start

_TAIL = 2000  # characters of what a rank that failed has said


class _ByStore:
    """Between processes that are all there."""

    def __init__(self, distributed_c10d):
        self.store = distributed_c10d._get_default_store

    def put(self, name, value):
        self.store().set("ac_advisor/" + name, pickle.dumps(value))

    def get(self, name, source):
        return pickle.loads(self.store().get("ac_advisor/" + name))


class _ByRunning:
    """Through files in the run's own folder; what is not there yet, another run of the program makes."""

    def __init__(self):
        self.folder = Path(os.environ["AC_ADVISOR_EMULATOR_OBJECTS"])
        self.wanted = os.environ.get("AC_ADVISOR_EMULATOR_WANTED", "").split()  # the last one here

    def put(self, name, value):
        path = self.folder / (name + ".object")
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(pickle.dumps(value))
        part.rename(path)
        if self.wanted and self.wanted[-1] == name:
            os._exit(0)

    def get(self, name, source):
        path = self.folder / (name + ".object")
        if not path.exists():
            self.run(name, source)
        return pickle.loads(path.read_bytes())

    def run(self, name, source):
        if name in self.wanted:
            raise RuntimeError(f"rank {source} waits for what waits for it ({name})")
        print(f"ac-advisor: rank {source} is run until it sends what this rank waits for", file=sys.stderr)
        node = int(start.environment.get("LOCAL_WORLD_SIZE", "8"))
        environment = start.environment | {
            "RANK": str(source),
            "LOCAL_RANK": str(source % node),
            "GROUP_RANK": str(source // node),
            "AC_ADVISOR_EMULATOR_WANTED": " ".join([*self.wanted, name]),
        }
        environment.pop("AC_ADVISOR_EMULATOR_RECORD", None)
        said = self.folder / (name + ".log")
        with said.open("w") as log:
            ended = subprocess.run(
                [sys.executable, *sys.orig_argv[1:]],
                env=environment,
                cwd=start.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        if not (self.folder / (name + ".object")).exists():
            raise RuntimeError(
                f"rank {source} ended (exit code {ended.returncode}) before it sent what this rank waits for:\n"
                + said.read_text(errors="replace")[-_TAIL:]
            )


def install(dist, distributed_c10d, one_process):
    passing = _ByRunning() if one_process else _ByStore(distributed_c10d)
    counts = Counter()

    def next_name(*words):
        """The same on both sides: objects are passed in the order of the calls."""
        words = "-".join(str(word) for word in words)
        counts[words] += 1
        return f"{words}-{counts[words]}"

    def rank_of(group, rank, group_rank, default=None):
        if group_rank is not None:
            return dist.get_global_rank(group or dist.group.WORLD, group_rank)
        return default if rank is None else rank

    def name_of_group(group):
        return ".".join(str(rank) for rank in dist.get_process_group_ranks(group or dist.group.WORLD))

    def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
        target = rank_of(group, dst, group_dst)
        passing.put(next_name("send", dist.get_rank(), target), list(object_list))

    def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
        source = rank_of(group, src, group_src)
        if source is None:
            raise ValueError("recv_object_list from any rank: the emulated device needs to know src")
        object_list[:] = passing.get(next_name("send", source, dist.get_rank()), source)
        return source

    def from_one(kind, value, src, group, group_src):
        source = rank_of(group, src, group_src, default=0)
        name = next_name(kind, source, name_of_group(group))
        if source != dist.get_rank():
            return passing.get(name, source)
        passing.put(name, value)
        return value

    def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
        object_list[:] = from_one("broadcast", list(object_list), src, group, group_src)

    def scatter_object_list(output, objects=None, src=None, group=None, group_src=None):
        objects = from_one("scatter", objects and list(objects), src, group, group_src)
        output[0] = objects[dist.get_group_rank(group or dist.group.WORLD, dist.get_rank())]

    for function in (send_object_list, recv_object_list, broadcast_object_list, scatter_object_list):
        original = getattr(distributed_c10d, function.__name__)
        function.__doc__ = original.__doc__
        for module in (dist, distributed_c10d):
            setattr(module, function.__name__, _for_members(function, distributed_c10d))


def _for_members(function, distributed_c10d):
    """A process outside of the group does nothing, as in PyTorch."""

    outside = distributed_c10d.GroupMember.NON_GROUP_MEMBER

    def call(*args, **kwargs):
        given = [*args, *kwargs.values()]
        if any(isinstance(value, type(outside)) and value == outside for value in given):
            return None
        return function(*args, **kwargs)

    return call
