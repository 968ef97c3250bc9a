"""torch's global state, compared and restored around each implementation.

A way that switches tf32 on, or replaces `torch.softmax`, would change what its neighbours do.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

# What is watched: a name, how to read it, how to put it back.
_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "number of threads": (torch.get_num_threads, torch.set_num_threads),
    "grad mode": (torch.is_grad_enabled, torch._C._set_grad_enabled),
    "float32 matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "cudnn.allow_tf32": (
        lambda: torch.backends.cudnn.allow_tf32,
        lambda on: setattr(torch.backends.cudnn, "allow_tf32", on),
    ),
    "cudnn.benchmark": (
        lambda: torch.backends.cudnn.benchmark,
        lambda on: setattr(torch.backends.cudnn, "benchmark", on),
    ),
    "deterministic algorithms": (
        torch.are_deterministic_algorithms_enabled,
        lambda on: torch.use_deterministic_algorithms(on),
    ),
}
# Modules and classes whose functions a way could replace under everybody's feet.
_NAMESPACES: dict[str, Any] = {
    "torch": torch,
    "torch.nn.functional": torch.nn.functional,
    "torch.Tensor": torch.Tensor,
    "torch.cuda": torch.cuda,
    "time": time,
}


def _functions(space: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(space).items() if callable(value)}


@contextlib.contextmanager
def guarded(report: Callable[[str], None]) -> Iterator[None]:
    """Report what the body changed, one call per change, and put it back."""
    before = {name: read() for name, (read, _) in _SETTINGS.items()}
    functions = {name: _functions(space) for name, space in _NAMESPACES.items()}
    stream = torch.cuda.current_stream() if torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        for name, (read, restore) in _SETTINGS.items():
            now = read()
            if now != before[name]:
                report(f"changed the {name} from {before[name]} to {now}")
                restore(before[name])
        for name, space in _NAMESPACES.items():
            now = _functions(space)
            for attribute, value in functions[name].items():
                if now.get(attribute) is not value:
                    report(f"replaced {name}.{attribute}")
                    setattr(space, attribute, value)
        if stream is not None and torch.cuda.current_stream() != stream:
            report("left another CUDA stream current")
            torch.cuda.set_stream(stream)
