"""The emulated device's functions for this package, in the library that is preloaded."""

import ctypes
import json

_library = ctypes.CDLL(None)
SEGMENTS = ("forward", "backward", "optimizer", "undecided")
ACTIVITIES = (
    "kernel",
    "memory_set",
    "copy_on_device",
    "copy_to_host",
    "copy_from_host",
    "copy_on_host",
)
_Counts = ctypes.c_uint64 * (2 * len(ACTIVITIES))


def present():
    return hasattr(_library, "ac_advisor_emulator_segment")


def segment(name):
    """What follows is counted in this segment."""
    _library.ac_advisor_emulator_segment(SEGMENTS.index(name))


def fold(source, target):
    """What was counted in one segment belongs to another."""
    _library.ac_advisor_emulator_fold(SEGMENTS.index(source), SEGMENTS.index(target))


def counts():
    """Times and bytes of each activity since the process began."""
    values = _Counts()
    _library.ac_advisor_emulator_counts(values)
    return {a: (values[2 * i], values[2 * i + 1]) for i, a in enumerate(ACTIVITIES)}


def step_ends(index):
    """The kernels of this step go into the record."""
    _library.ac_advisor_emulator_step(index)


def last():
    """The program has ended: what follows is the process's own end."""
    _library.ac_advisor_emulator_last()


def split_into(ranks):
    """So many has the next communicator that this thread splits off."""
    _library.ac_advisor_emulator_split_into(ranks)


def log_launches(on):
    """Begins an empty log of when each kernel, memset and copy on the device is launched, or ends it."""
    _library.ac_advisor_emulator_log_launches(1 if on else 0)


def launch_times():
    """Of the log: nanoseconds since 1970, in order."""
    room = _library.ac_advisor_emulator_launch_times(None, 0)
    times = (ctypes.c_uint64 * room)()
    _library.ac_advisor_emulator_launch_times(times, room)
    return list(times)


def hold_watchdog(on):
    """While it is held, NCCL's watchdog sees nothing end."""
    _library.ac_advisor_emulator_hold_watchdog(1 if on else 0)


def line(**fields):
    """Into the record, as it is."""
    _library.ac_advisor_emulator_line(json.dumps(fields).encode())


if present():
    _library.ac_advisor_emulator_line.argtypes = [ctypes.c_char_p]
    _library.ac_advisor_emulator_launch_times.argtypes = [
        ctypes.POINTER(ctypes.c_uint64),
        ctypes.c_uint64,
    ]
    _library.ac_advisor_emulator_launch_times.restype = ctypes.c_uint64
    _library.ac_advisor_emulator_counts.argtypes = [_Counts]
