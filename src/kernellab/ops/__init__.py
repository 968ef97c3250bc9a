"""The shipped ops, as attributes: `kl.ops.gelu["triton"](x)`.

Adding an op is adding a folder whose `__init__.py` declares an op of the folder's name.
"""

import importlib
import pkgutil

from kernellab.declaration.op import Op

for _info in pkgutil.iter_modules(__path__):
    if _info.ispkg:
        # The import binds the folder's module here; the op takes its place.
        globals()[_info.name] = getattr(importlib.import_module(f"{__name__}.{_info.name}"), _info.name)


def __getattr__(name: str) -> Op:
    raise AttributeError(f"kernellab ships no op {name!r}")


def __dir__() -> list[str]:
    return [info.name for info in pkgutil.iter_modules(__path__) if info.ispkg]
