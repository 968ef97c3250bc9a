"""The process's global state, compared before and after an implementation runs, and restored.

An implementation that enables TF32 or replaces `torch.softmax` would change what the other implementations do.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import torch

from kernellab.accuracy import spot_check
from kernellab.base.functions import AnyFunction
from kernellab.timing import input_sets, window
from kernellab.timing.timers import TIMERS

_WRAPPED_BY_DYNAMO = "torch.manual_seed"  # by importing torch's compiler

Report = Callable[[str], None]
# Restores a setting. Returns "from … to …" where it had changed, else None.
Undo = Callable[[], str | None]
_Value = TypeVar("_Value")


class _Unreadable:
    """The value of a setting that cannot be read: torch refuses to read some precisions once they are mixed."""

    def __str__(self) -> str:
        return "something that cannot be read"


_UNREADABLE = _Unreadable()


def _read_or_mark(read: Callable[[], _Value]) -> _Value | _Unreadable:
    try:
        return read()
    except Exception:
        return _UNREADABLE


def _setting(read: Callable[[], _Value], write: Callable[[_Value], object]) -> Callable[[], Undo]:
    """A function that remembers the setting as it is and returns what restores it."""

    def remember() -> Undo:
        before = _read_or_mark(read)

        def undo() -> str | None:
            now = _read_or_mark(read)
            if now == before or isinstance(before, _Unreadable):
                return None
            with contextlib.suppress(Exception):
                write(before)
            return f"from {before} to {now}"

        return undo

    return remember


def _attribute(owner: object, name: str) -> Callable[[], Undo]:
    return _setting(lambda: getattr(owner, name), lambda value: setattr(owner, name, value))


def _output(name: str) -> Callable[[], Undo]:
    """Whether a standard stream is open. A closed one would make other implementations fail that print or warn.

    The log it was connected to cannot be reopened, so later output is discarded.
    """

    def read() -> str:
        try:
            os.fstat(getattr(sys, name).fileno())
        except (OSError, ValueError, AttributeError):
            return "closed"
        return "open"

    return _setting(read, lambda _: setattr(sys, name, Path(os.devnull).open("w")))


def _affinity() -> frozenset[int]:
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


_RECURSION_LIMIT = sys.getrecursionlimit()
_DENORMAL = torch.tensor(1e-40)


def _set_gc_callbacks(callbacks: tuple[AnyFunction, ...]) -> None:
    gc.callbacks[:] = callbacks


_SETTINGS: dict[str, Callable[[], Undo]] = {
    "default dtype": _setting(torch.get_default_dtype, torch.set_default_dtype),
    "number of threads": _setting(torch.get_num_threads, torch.set_num_threads),
    "default device": _setting(torch.get_default_device, torch.set_default_device),
    "grad mode": _setting(torch.is_grad_enabled, torch._C._set_grad_enabled),
    "float32 matmul precision": _setting(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "cudnn.allow_tf32": _attribute(torch.backends.cudnn, "allow_tf32"),
    "cudnn.benchmark": _attribute(torch.backends.cudnn, "benchmark"),
    "CPU affinity": _setting(_affinity, lambda cores: os.sched_setaffinity(0, cores)),
    "process priority": _setting(
        lambda: os.getpriority(os.PRIO_PROCESS, 0),
        lambda priority: os.setpriority(os.PRIO_PROCESS, 0, priority),
    ),
    "flushing of denormal numbers": _setting(lambda: float(_DENORMAL * 1) == 0, torch.set_flush_denormal),
    "garbage collector's callbacks": _setting(lambda: tuple(gc.callbacks), _set_gc_callbacks),
    "deterministic algorithms": _setting(
        torch.are_deterministic_algorithms_enabled,
        lambda enabled: torch.use_deterministic_algorithms(enabled),
    ),
    "standard output": _output("stdout"),
    "standard error": _output("stderr"),
    "working folder": _setting(os.getcwd, os.chdir),
    # A higher limit does no harm, and importing torch's compiler sets one.
    "recursion limit": _setting(lambda: min(sys.getrecursionlimit(), _RECURSION_LIMIT), sys.setrecursionlimit),
    "memory limit": _setting(
        lambda: resource.getrlimit(resource.RLIMIT_AS),
        lambda limits: resource.setrlimit(resource.RLIMIT_AS, limits),
    ),
    # An alarm that goes off later kills this process while another implementation runs.
    "pending alarm": _setting(
        lambda: signal.getitimer(signal.ITIMER_REAL)[0] > 0,
        lambda _: signal.setitimer(signal.ITIMER_REAL, 0),
    ),
}
# Modules and classes with functions that an implementation could replace for the whole process.
_NAMESPACES: dict[str, object] = {
    "torch": torch,
    "torch.nn.functional": torch.nn.functional,
    "torch.Tensor": torch.Tensor,
    "torch.cuda": torch.cuda,
    "torch.cuda.Event": torch.cuda.Event,
    "torch.cuda.Stream": torch.cuda.Stream,
    "torch.autograd.graph": torch.autograd.graph,
    "time": time,
    "builtins": builtins,
    # kernellab's own code that times and verifies implementations:
    **{timer.__module__: sys.modules[timer.__module__] for timer in TIMERS.values()},
    "kernellab.timing.window": window,
    "kernellab.timing.input_sets": input_sets,
    "kernellab.timing.input_sets.InputSets": input_sets.InputSets,
    "kernellab.accuracy.spot_check": spot_check,
}


class FunctionSnapshot:
    """The functions that an implementation could replace, as they are when the snapshot is made."""

    def __init__(self) -> None:
        self._without_dynamo = "torch._dynamo" not in sys.modules
        self._functions = [
            (label, namespace, name, value)
            for label, namespace in _NAMESPACES.items()
            for name, value in vars(namespace).items()
            if callable(value)
        ]
        # Replacing a function that a class inherits adds a name to the class.
        self._classes = [
            (label, namespace, set(vars(namespace)))
            for label, namespace in _NAMESPACES.items()
            if isinstance(namespace, type)
        ]

    def restore(self) -> list[str]:
        """Undo every replacement; the names of the functions that had been replaced. Takes about 0.2 ms."""
        replaced = []
        for label, namespace, name, value in self._functions:
            now = vars(namespace).get(name)
            if now is value:
                continue
            full_name = f"{label}.{name}"
            if self._without_dynamo and full_name == _WRAPPED_BY_DYNAMO and getattr(now, "__wrapped__", None) is value:
                continue
            replaced.append(full_name)
            setattr(namespace, name, value)
        for label, class_, names in self._classes:
            for name in vars(class_).keys() - names:
                if any(name in vars(base) for base in class_.__mro__[1:]):
                    replaced.append(f"{label}.{name}")
                    delattr(class_, name)
        return replaced


@contextlib.contextmanager
def guard_settings(report: Report) -> Iterator[None]:
    """Report and restore the settings and the current CUDA stream where the body changed them. Takes a few µs."""
    undos = {name: remember() for name, remember in _SETTINGS.items()}
    stream = torch.cuda.current_stream() if torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        for name, undo in undos.items():
            change = undo()
            if change is not None:
                report(f"changed the {name} {change}")
        if stream is not None and torch.cuda.current_stream() != stream:
            report("left another CUDA stream current")
            torch.cuda.set_stream(stream)


@contextlib.contextmanager
def guard_global_state(report: Report, *, may_draw: bool = False) -> Iterator[None]:
    """Like `guard_settings`, and also for replaced functions, the random generator and warning filters.

    Warning filters are restored without a report, because importing a package sets some, and so is the generator if
    `may_draw`.
    """
    functions = FunctionSnapshot()
    generator = torch.get_rng_state()
    try:
        with warnings.catch_warnings(), guard_settings(report):
            yield
    finally:
        for name in functions.restore():
            report(f"replaced {name}")
        if restore_generator(generator) and not may_draw:
            report("drew from torch's global random generator")


def restore_generator(state: torch.Tensor) -> bool:
    """Set torch's global random generator back to a state; whether it had left that state."""
    if torch.equal(state, torch.get_rng_state()):
        return False
    torch.set_rng_state(state)
    return True
