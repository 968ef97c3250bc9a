"""Told when a program first works with tensors: what it imports, reads and prepares before is not worth recording."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode

_MOST_ATTEMPTS = 1000  # each takes a microsecond


class FirstWork:
    """Calls `call` once, on the main thread, right after the first function of torch's that no import calls."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._attempts = 0
        self._began = time.perf_counter()
        self.seconds: float | None = None  # until then
        self.among_imports = False  # whether tensors were worked with there
        self._leave_soon = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._leave)
        self._mode = _Mode(self._seen)
        self._mode.__enter__()
        os.register_at_fork(after_in_child=self.give_up)

    def give_up(self) -> None:
        if _get_current_function_mode() is self._mode:
            self._mode.__exit__(None, None, None)

    def _seen(self) -> None:
        if _importing():
            self.among_imports = True
        elif not self._attempts:
            self._ask()

    def _ask(self) -> None:
        """The mode cannot be left while it is asked, so the interpreter is to come back to it, soon and again."""
        self._attempts += 1
        ctypes.pythonapi.Py_AddPendingCall(self._leave_soon, None)

    def _leave(self, _: object) -> int:
        on_top = _get_current_function_mode() is self._mode
        if not on_top and self._attempts < _MOST_ATTEMPTS:
            self._ask()
            return 0
        self._attempts = 0  # where another mode lies above, or a compiler puts this one back, the next function asks
        self.give_up()
        if on_top and self.seconds is None:
            self.seconds = time.perf_counter() - self._began
            self._call()
        return 0


class _Mode(TorchFunctionMode):
    def __init__(self, seen: Callable[[], None]) -> None:
        super().__init__()
        self._seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not torch.compiler.is_dynamo_compiling():
            self._seen()
        return func(*args, **(kwargs or {}))


def _importing() -> bool:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name == "_find_and_load" and "importlib" in frame.f_code.co_filename:
            return True
    return False
