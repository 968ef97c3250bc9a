"""The shipped ops, as attributes: `kl.ops.gelu["triton"](x)`.

Adding an op is adding a folder. All folders have the same files:

- `__init__.py` declares an op of the folder's name, then its implementations in the order torch, triton, cuda, cpp;
- `triton.py` has the Triton kernels, `cuda.cu` those in CUDA C++, `cpp.cpp` the C++ for the CPU;
- `cuda.py` and `cpp.py` launch them where the op does more than map elements;
- `studies.py`, where there is one, declares further implementations for comparison; `studies.cu` and
  `studies_triton.py` have their kernels.

The modules and headers beside the folders hold what ops share: how data is moved (`elementwise_*`, `rows*`, `norms*`,
`maps_cpp`, `layout`, `teams`), the instructions of tensor cores (`mma`), how an implementation is made of its two passes (`gradients`), random numbers
(`philox*`), the dtypes (`floats`, `dtypes`), the properties of GPUs (`gpus`) and what studies support (`studies`). An
op file here is declared like a user's, through the public API. It is executed in workers, and by `kernellab.library`,
which registers the same passes for use in models.
"""

import importlib
import pkgutil

from kernellab.declaration.declare import collect_ops
from kernellab.declaration.op import Op

with collect_ops():  # a collection of their own: a file that uses these ops does not declare them
    for _info in pkgutil.iter_modules(__path__):
        if _info.ispkg:
            _op = getattr(importlib.import_module(f"{__name__}.{_info.name}"), _info.name, None)
            if not isinstance(_op, Op):
                raise ImportError(
                    f"kernellab/ops/{_info.name}/__init__.py declares no op {_info.name}: name the op as its folder"
                )
            globals()[_info.name] = _op  # in the place of the folder's module, which the import bound here
            if (_op.file.parent / "studies.py").is_file():
                importlib.import_module(f"{__name__}.{_info.name}.studies")


def __getattr__(name: str) -> Op:
    raise AttributeError(f"kernellab ships no op {name!r}")


def __dir__() -> list[str]:
    return [info.name for info in pkgutil.iter_modules(__path__) if info.ispkg]
