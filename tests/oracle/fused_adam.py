"""Transformer Engine's FusedAdam from its own file: the package imports kernels that are built for one PyTorch.

The kernels stand-ins here touch nothing and allocate nothing, as its multi-tensor kernels allocate nothing
(common/multi_tensor/adam.cu, 2.14); how often they are launched is not seen.
"""

import functools
import importlib.machinery
import importlib.util
import pathlib
import sys
import types


def stand_in(name, **names):
    module = types.ModuleType(name)
    module.__dict__.update(names)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    sys.modules[name] = module


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@functools.cache
def fused_adam():
    """The class, of the package that PYTHONPATH has (`pip install --no-deps transformer_engine==2.14.0`)."""
    package = importlib.util.find_spec("transformer_engine").submodule_search_locations[0]
    folder = pathlib.Path(package) / "pytorch" / "optimizers"
    kernels = ["multi_tensor_adam" + more
               for more in ("", "_param_remainder", "_fp8", "_capturable", "_capturable_master")]
    stand_in("transformer_engine_torch", DType=types.SimpleNamespace(kFloat32=0),
             **dict.fromkeys(kernels, lambda *arguments: None))
    outer = "transformer_engine.pytorch"
    for name in ("transformer_engine", outer, f"{outer}.tensor", f"{outer}.optimizers"):
        stand_in(name, __path__=[])
    stand_in(f"{outer}.tensor.float8_tensor", **{name: type(name, (), {}) for name in ("Float8Tensor", "Float8Quantizer")})
    stand_in(f"{outer}.quantized_tensor", QuantizedTensor=type("QuantizedTensor", (), {}))
    load(f"{outer}.optimizers.multi_tensor_apply", folder / "multi_tensor_apply.py")
    return load(f"{outer}.optimizers.fused_adam", folder / "fused_adam.py").FusedAdam
