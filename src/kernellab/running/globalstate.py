"""torch's global state, compared and restored around each implementation.

A way that switches tf32 on, or replaces `torch.softmax`, would change what its neighbours do.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

# What is watched: a name, how to read it, how to put it back.
_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "number of threads": (torch.get_num_threads, torch.set_num_threads),
    "default device": (torch.get_default_device, torch.set_default_device),
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
    "torch.cuda.Event": torch.cuda.Event,
    "torch.cuda.Stream": torch.cuda.Stream,
    "time": time,
}
_UNREADABLE = object()

Report = Callable[[str], None]


def _read(read: Callable[[], Any]) -> Any:
    """A setting, or a mark that it cannot be read: torch refuses to read some precisions once they are mixed."""
    try:
        return read()
    except Exception:
        return _UNREADABLE


def _functions(space: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(space).items() if callable(value)}


@contextlib.contextmanager
def settings_guarded(report: Report) -> Iterator[None]:
    """Report what the body changed of torch's settings and the current stream, and put it back. A few µs."""
    before = {name: _read(read) for name, (read, _) in _SETTINGS.items()}
    stream = torch.cuda.current_stream() if torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        for name, (read, restore) in _SETTINGS.items():
            now = _read(read)
            if now != before[name] and before[name] is not _UNREADABLE:
                shown = "something torch cannot name" if now is _UNREADABLE else now
                report(f"changed the {name} from {before[name]} to {shown}")
                with contextlib.suppress(Exception):
                    restore(before[name])
        if stream is not None and torch.cuda.current_stream() != stream:
            report("left another CUDA stream current")
            torch.cuda.set_stream(stream)


@contextlib.contextmanager
def guarded(report: Report) -> Iterator[None]:
    """As `settings_guarded`, and for functions of torch and time that the body replaced, and the random generator."""
    functions = {name: _functions(space) for name, space in _NAMESPACES.items()}
    without_dynamo = "torch._dynamo" not in sys.modules
    generator = torch.get_rng_state()
    try:
        with settings_guarded(report):
            yield
    finally:
        for name, space in _NAMESPACES.items():
            now = _functions(space)
            for attribute, value in functions[name].items():
                found = now.get(attribute)
                if without_dynamo and getattr(found, "__wrapped__", None) is value:
                    continue  # torch's own doing: importing its compiler wraps torch.manual_seed
                if found is not value:
                    report(f"replaced {name}.{attribute}")
                    setattr(space, attribute, value)
        if not torch.equal(generator, torch.get_rng_state()):
            report("drew from torch's global random generator")
            torch.set_rng_state(generator)
