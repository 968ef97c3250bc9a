"""Detects when a program first works with tensors: imports and preparations before that are not recorded."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode

_MOST_ATTEMPTS = 1000  # each takes a microsecond


class FirstTensorWork:
    """Calls `action` once, on the main thread, right after the first torch function that is not called by an import."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action
        self._attempts = 0
        self._began = time.perf_counter()
        self.seconds: float | None = None  # from creation to the first work
        self.seen_in_imports = False  # whether a module worked with tensors while it was imported
        self._try_leaving = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._leave)
        self._mode = _ObservingMode(self._observe)
        self._mode.__enter__()
        os.register_at_fork(after_in_child=self.cancel)

    def cancel(self) -> None:
        if _get_current_function_mode() is self._mode:
            self._mode.__exit__(None, None, None)

    def _observe(self) -> None:
        if _is_importing():
            self.seen_in_imports = True
        elif not self._attempts:
            self._schedule_leaving()

    def _schedule_leaving(self) -> None:
        """A mode cannot be left inside its own call, so the interpreter calls `_leave` a moment later."""
        self._attempts += 1
        ctypes.pythonapi.Py_AddPendingCall(self._try_leaving, None)

    def _leave(self, _: object) -> int:
        on_top = _get_current_function_mode() is self._mode
        if not on_top and self._attempts < _MOST_ATTEMPTS:
            self._schedule_leaving()
            return 0
        # If another mode is above, or a compiler re-enters this one, the next torch function tries again.
        self._attempts = 0
        self.cancel()
        if on_top and self.seconds is None:
            self.seconds = time.perf_counter() - self._began
            self._action()
        return 0


class _TorchFunction(Protocol):
    def __call__(self, *args: object, **kwargs: object) -> object: ...


class _ObservingMode(TorchFunctionMode):
    def __init__(self, observe: Callable[[], None]) -> None:
        super().__init__()
        self._observe = observe

    def __torch_function__(
        self,
        func: _TorchFunction,
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        if not torch.compiler.is_dynamo_compiling():
            self._observe()
        return func(*args, **(kwargs or {}))


def _is_importing() -> bool:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name == "_find_and_load" and "importlib" in frame.f_code.co_filename:
            return True
    return False
