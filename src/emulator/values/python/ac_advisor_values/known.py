"""Which large float tensors are what they are known to be."""

import torch


class Marked:
    """Tensors by address, while nothing has written to them and their storage is that one."""

    def __init__(self):
        self._found = {}  # a weak reference to the storage, the tensor's version

    def add(self, tensor):
        if tensor.is_inference():
            return  # has no version
        address = tensor.data_ptr()
        self._forget(address)
        self._found[address] = (tensor.untyped_storage()._weak_ref(), tensor._version)

    def __contains__(self, tensor):
        found = self._found.get(tensor.data_ptr())
        if found is None or tensor.is_inference():
            return False
        storage, version = found
        if torch.UntypedStorage._expired(storage):
            self._forget(tensor.data_ptr())
            return False
        return tensor._version == version

    def _forget(self, address):
        found = self._found.pop(address, None)
        if found is not None:
            torch.UntypedStorage._free_weak_ref(found[0])


zeros = Marked()  # in the program's eyes: their memory has not been set
computed = Marked()  # on the CPU: their memory has their values
