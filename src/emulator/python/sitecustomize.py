"""Runs before the program does, where `ac-advisor dryrun` put this folder first on PYTHONPATH.

Waits for PyTorch to be imported, then installs what each package beside this file has to do there.
The interpreter's own sitecustomize, which this one hides, runs as it would have.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_PACKAGES = ("ac_advisor_values", "ac_advisor_dryrun")  # in this order


class _AfterTorch(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands before the finders for the one name, and steps aside once it is found."""

    def __init__(self):
        self.loader = None

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        for package in _PACKAGES:
            if os.path.isdir(os.path.join(_FOLDER, package)):
                importlib.import_module(package).install()


def _run_hidden():
    paths = [p for p in sys.path if os.path.realpath(p or ".") != os.path.realpath(_FOLDER)]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


sys.meta_path.insert(0, _AfterTorch())
_run_hidden()
