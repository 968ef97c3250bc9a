"""One GPU as its driver describes it, through NVML. What is unsupported or refused is None; nothing is ever set."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from types import ModuleType

_NOT_FOUND = 6  # NVML_ERROR_NOT_FOUND


@dataclass(frozen=True)
class ProcessUse:
    """What a process used of the GPU, and until when on NVML's own clock."""

    pid: int
    sm_percent: int
    timestamp: int


class Nvml:
    """NVML for the GPU with this UUID. Every answer is None without the package, the driver or the GPU."""

    def __init__(self, uuid: str) -> None:
        self._library: ModuleType | None = None
        self._handle: object = None
        with contextlib.suppress(Exception):
            import pynvml

            pynvml.nvmlInit()  # NVML counts these; cheap after the first, and the end of the process closes it
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            self._library = pynvml

    @property
    def found(self) -> bool:
        return self._library is not None

    def ask(self, names: str, *args: object) -> object:
        """The answer of the first of these functions that gives one: newer drivers rename some of them.

        An argument that is a string names a constant of the library.
        """
        if self._library is None:
            return None
        for name in names.split():
            with contextlib.suppress(Exception):
                values = [getattr(self._library, a) if isinstance(a, str) else a for a in args]
                answer: object = getattr(self._library, name)(self._handle, *values)
                return answer
        return None

    def number(self, names: str, *args: object) -> float | None:
        answer = self.ask(names, *args)
        return float(answer) if isinstance(answer, (int, float)) else None

    def process_use(self, since: int) -> list[ProcessUse] | None:
        """What each process used after this time on NVML's clock; empty when no process used anything."""
        if self._library is None:
            return None
        try:
            entries = self._library.nvmlDeviceGetProcessUtilization(self._handle, since)
        except Exception as error:  # success and "not found" are how an empty list arrives
            return [] if getattr(error, "value", None) in (0, _NOT_FOUND) else None
        return [ProcessUse(int(e.pid), int(e.smUtil), int(e.timeStamp)) for e in entries]
