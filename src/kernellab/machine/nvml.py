"""One GPU as its driver describes it. What is unsupported or refused is None, never an exception; nothing is set."""

from __future__ import annotations

import contextlib
from typing import Any

_NOT_FOUND = 6  # NVML_ERROR_NOT_FOUND


class Nvml:
    """NVML for the GPU with this UUID; every answer is None without the package, the driver or the GPU."""

    def __init__(self, uuid: str) -> None:
        self._library: Any = None
        self._handle: Any = None
        with contextlib.suppress(Exception):
            import pynvml

            pynvml.nvmlInit()  # counted by NVML, cheap after the first; the process's end closes it
            self._library, self._handle = pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid)

    @property
    def found(self) -> bool:
        return self._handle is not None

    def ask(self, names: str, *args: Any) -> Any:
        """The answer of the first of these functions that gives one: newer drivers rename some of them.

        An argument that is a string names a constant of the library.
        """
        if self._handle is None:
            return None
        for name in names.split():
            with contextlib.suppress(Exception):
                values = [getattr(self._library, a) if isinstance(a, str) else a for a in args]
                return getattr(self._library, name)(self._handle, *values)
        return None

    def number(self, names: str, *args: Any) -> float | None:
        with contextlib.suppress(TypeError, ValueError):
            return float(self.ask(names, *args))
        return None

    def busy_processes(self, since: int) -> list[Any] | None:
        """What each process used after this time of NVML's own clock; empty when nobody used anything."""
        if self._handle is None:
            return None
        try:
            return list(self._library.nvmlDeviceGetProcessUtilization(self._handle, since))
        except Exception as error:  # success and "not found" are how an empty list arrives
            return [] if getattr(error, "value", None) in (0, _NOT_FOUND) else None
