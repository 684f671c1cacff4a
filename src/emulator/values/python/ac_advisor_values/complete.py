"""Computes on the CPU what a kernel of the emulated device did not."""

import torch

from . import emulator
from .limits import FLOATS, is_float, limit
from .on_cpu import SUBSTITUTES
from .policy import CHOOSING, NEUTRAL, OF_ONES, ROUTING
from .twin import ones, twin

#: Products: too much for a CPU where operands are large, whatever their type.
_PRODUCTS = frozenset(
    "mm addmm bmm baddbmm _int_mm _scaled_mm _grouped_mm _scaled_grouped_mm convolution addmv dot "
    "_addmm_activation linear".split()
)

_generator = torch.Generator("cpu")
_generator.manual_seed(0)  # the program's own generators stay where they are


class _Unknown(Exception):
    """An operand is large and was not computed."""


class _Quiet:
    """No mode, subclass or autograd of the program's sees what is done here."""

    def __enter__(self):
        self.guards = [
            torch._C.DisableTorchFunction(),
            torch._C._DisableTorchDispatch(),
            torch._C._AutoDispatchBelowAutograd(),
        ]
        for g in self.guards:
            g.__enter__()

    def __exit__(self, *exception):
        for g in reversed(self.guards):
            g.__exit__(*exception)
        self.guards = None


class Operator:
    """One overload of an operator, and how its results are completed."""

    def __init__(self, name, schema):
        self.name = name
        self.base, _, self.overload = name.removeprefix("aten::").partition(".")
        write = [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments]
        self._written = [(i, a.name) for i, a in enumerate(schema.arguments) if write[i]]
        self._out = [a.name for i, a in enumerate(schema.arguments) if write[i] and a.kwarg_only]
        self._fresh = bool(schema.returns) and schema.returns[0].alias_info is None
        self._generator = any(a.name == "generator" for a in schema.arguments)
        self._call = SUBSTITUTES.get(name)
        self._on_cpu = True

    def written(self, args, kwargs):
        for i, name in self._written:
            yield args[i] if i < len(args) else kwargs.get(name)

    def finish(self, args, kwargs, result):
        with _Quiet():
            try:
                self._finish(args, kwargs, result)
            except _Unknown:
                self._stand_in(args, kwargs, result)

    def _finish(self, args, kwargs, result):
        if self.base in ROUTING and is_float(args[0].dtype):
            raise _Unknown
        if not self._on_cpu:
            raise _Unknown
        if self._call is None:
            self._call = getattr(getattr(torch.ops.aten, self.base), self.overload or "default")
        cpu_args = [self._operand(a) for a in args]
        cpu_kwargs = {k: self._operand(v) for k, v in kwargs.items()}
        if self._generator:
            cpu_kwargs["generator"] = _generator
        try:
            computed = self._call(*cpu_args, **cpu_kwargs)
        except (NotImplementedError, RuntimeError) as error:
            if isinstance(error, NotImplementedError):
                self._on_cpu = False  # no such kernel for the CPU
            raise _Unknown from None
        if self._fresh:
            _copy(computed, result)

    def _operand(self, value):
        if isinstance(value, torch.Tensor):
            if not value.is_cuda:
                return value
            n = value.numel()
            if n <= (FLOATS if self.base in _PRODUCTS else limit(value.dtype)):
                return twin(value)
            if self.base in OF_ONES and is_float(value.dtype):
                return ones(value)
            raise _Unknown
        if isinstance(value, (list, tuple)):
            return [self._operand(v) for v in value]
        if isinstance(value, torch.device):
            return torch.device("cpu")
        return value

    def _stand_in(self, args, kwargs, result):
        choose = ROUTING.get(self.base) or CHOOSING.get(self.base)
        if choose is not None and args and is_float(args[0].dtype) and _indices(result):
            choose(args, kwargs, result)
            emulator.note(
                f"{self.base}: indices chosen by floats, which are not computed, are taken in turn "
                "(balanced)"
            )
        if self._fresh:
            targets = list(result) if isinstance(result, (list, tuple)) else [result]
        else:
            targets = [kwargs[name] for name in self._out if kwargs.get(name) is not None]
        for target in targets:
            if isinstance(target, (list, tuple)):
                continue
            self._fill(target, chosen=choose is not None)

    def _fill(self, target, chosen):
        if target is None or not target.is_cuda or target.numel() == 0:
            return
        if self.base in NEUTRAL:
            twin(target).fill_(NEUTRAL[self.base])
        elif is_float(target.dtype):
            if target.numel() <= FLOATS:
                twin(target).fill_(1)
        elif not chosen:
            emulator.note(
                f"{self.name}: an integer result that depends on what is not computed was left as "
                "it is"
            )


def _indices(result):
    """Whether it is one of the forms that the policies write."""
    last = result[-1] if isinstance(result, (list, tuple)) else result
    return isinstance(last, torch.Tensor) and last.dtype == torch.int64


def _copy(computed, result):
    if isinstance(computed, torch.Tensor):
        # What was not asked for (unique's counts) is empty on the CPU and not on CUDA.
        if 0 < result.numel() <= limit(result.dtype) and computed.shape == result.shape:
            twin(result).copy_(computed)
    elif isinstance(computed, (list, tuple)):
        for c, r in zip(computed, result):
            if isinstance(r, torch.Tensor) and r.is_cuda:
                _copy(c, r)
