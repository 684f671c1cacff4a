"""The emulated device's functions for this package, in the library that is preloaded."""

import ctypes

_library = ctypes.CDLL(None)


def present():
    return hasattr(_library, "ac_advisor_emulator_deliver")


def note(text):
    """Into the run's record, once for each text."""
    _library.ac_advisor_emulator_note(text.encode())


def deliver(value, size):
    """The calling thread's next copy of `size` bytes to the host brings `value`."""
    _library.ac_advisor_emulator_deliver(int(value).to_bytes(size, "little", signed=True), size)


def withdraw():
    _library.ac_advisor_emulator_deliver(None, 0)


if present():
    _library.ac_advisor_emulator_note.argtypes = [ctypes.c_char_p]
    _library.ac_advisor_emulator_note.restype = None
    _library.ac_advisor_emulator_deliver.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    _library.ac_advisor_emulator_deliver.restype = None
