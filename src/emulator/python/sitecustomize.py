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
    """Stands before the finders for the one name, until it is imported: who asks whether PyTorch
    is there (importlib.util.find_spec) does not import it yet."""

    def __init__(self):
        self.loader = None
        self.asking = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.asking:
            return None
        self.asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asking = False
        if spec is not None and spec.loader is not None:
            self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        if self in sys.meta_path:
            sys.meta_path.remove(self)
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


if os.path.isdir(os.path.join(_FOLDER, "ac_advisor_dryrun")):
    importlib.import_module("ac_advisor_dryrun.start")
sys.meta_path.insert(0, _AfterTorch())
_run_hidden()
