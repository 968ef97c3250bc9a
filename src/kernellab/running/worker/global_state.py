"""torch's global state, compared and restored around each implementation.

A way that switches tf32 on, or replaces `torch.softmax`, would change what its neighbours do.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from kernellab.accuracy.spot_check import SpotCheck
from kernellab.timing import input_sets as sets
from kernellab.timing import window
from kernellab.timing.timers import TIMERS


def _affinity() -> frozenset[int] | None:
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def _output(name: str) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Closed, it makes neighbours fail that print or warn. What was lost went to a log: what follows goes nowhere."""

    def read() -> str:
        try:
            os.fstat(getattr(sys, name).fileno())
        except (OSError, ValueError, AttributeError):
            return "closed"
        return "open"

    return read, lambda _: setattr(sys, name, Path(os.devnull).open("w"))


_RECURSION = sys.getrecursionlimit()


# What is watched: a name, how to read it, how to put it back.
_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
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
    "cores it may run on": (_affinity, lambda cores: os.sched_setaffinity(0, cores)),
    "deterministic algorithms": (
        torch.are_deterministic_algorithms_enabled,
        lambda on: torch.use_deterministic_algorithms(on),
    ),
    "standard output": _output("stdout"),
    "standard error": _output("stderr"),
    "working folder": (os.getcwd, os.chdir),
    # Raising it hurts nobody, and importing torch's compiler does.
    "recursion limit": (lambda: min(sys.getrecursionlimit(), _RECURSION), sys.setrecursionlimit),
    "limit on memory": (
        lambda: resource.getrlimit(resource.RLIMIT_AS),
        lambda limits: resource.setrlimit(resource.RLIMIT_AS, limits),
    ),
    # One that goes off later kills this process while a neighbour runs.
    "pending alarm": (
        lambda: signal.getitimer(signal.ITIMER_REAL)[0] > 0,
        lambda on: signal.setitimer(signal.ITIMER_REAL, 0),
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
    "torch.autograd.graph": torch.autograd.graph,
    "time": time,
    "builtins": builtins,
    # And what watches them:
    **{timer.__module__: sys.modules[timer.__module__] for timer in TIMERS.values()},
    "kernellab.timing.window": window,
    "kernellab.timing.input_sets": sets,
    "kernellab.timing.input_sets.InputSets": sets.InputSets,
    "kernellab.accuracy.spot_check.SpotCheck": SpotCheck,
}
_UNREADABLE = object()

Report = Callable[[str], None]


def _read(read: Callable[[], Any]) -> Any:
    """A setting, or a mark that it cannot be read: torch refuses to read some precisions once they are mixed."""
    try:
        return read()
    except Exception:
        return _UNREADABLE


class Functions:
    """The functions a way could replace, as they are now."""

    def __init__(self) -> None:
        self._without_dynamo = "torch._dynamo" not in sys.modules
        self._before = [
            (label, space, name, value)
            for label, space in _NAMESPACES.items()
            for name, value in vars(space).items()
            if callable(value)
        ]
        # A class also has what it inherits: replacing that adds a name.
        self._classes = [(k, space, set(vars(space))) for k, space in _NAMESPACES.items() if isinstance(space, type)]

    def put_back(self) -> list[str]:
        """Undo every replacement, and say which there were. About 0.2 ms."""
        found = []
        for label, space, name, value in self._before:
            now = vars(space).get(name)
            if now is value or (self._without_dynamo and getattr(now, "__wrapped__", None) is value):
                continue  # the latter is torch's own doing: importing its compiler wraps torch.manual_seed
            found.append(f"{label}.{name}")
            setattr(space, name, value)
        for label, space, names in self._classes:
            for name in vars(space).keys() - names:
                if any(name in vars(base) for base in space.__mro__[1:]):
                    found.append(f"{label}.{name}")
                    delattr(space, name)
        return found


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
                shown = "something that cannot be read" if now is _UNREADABLE else now
                report(f"changed the {name} from {before[name]} to {shown}")
                with contextlib.suppress(Exception):
                    restore(before[name])
        if stream is not None and torch.cuda.current_stream() != stream:
            report("left another CUDA stream current")
            torch.cuda.set_stream(stream)


@contextlib.contextmanager
def guarded(report: Report) -> Iterator[None]:
    """As `settings_guarded`, and for functions of torch, time and Python that the body replaced, the random
    generator, and filters of warnings: those are put back without a word, as importing a package sets some."""
    functions = Functions()
    generator = torch.get_rng_state()
    try:
        with warnings.catch_warnings(), settings_guarded(report):
            yield
    finally:
        for name in functions.put_back():
            report(f"replaced {name}")
        if drew_random_numbers(generator):
            report("drew from torch's global random generator")


def drew_random_numbers(before: torch.Tensor) -> bool:
    """Whether torch's global generator has moved on since; it is set back."""
    if torch.equal(before, torch.get_rng_state()):
        return False
    torch.set_rng_state(before)
    return True
