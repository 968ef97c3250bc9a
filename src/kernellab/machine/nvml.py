"""One GPU as its driver describes it, through NVML. Unsupported or refused queries give None; nothing is ever set."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from types import ModuleType

_NOT_FOUND = 6  # NVML_ERROR_NOT_FOUND


@dataclass(frozen=True)
class ProcessUse:
    """The share of the GPU that a process used, and the end of that time on NVML's own clock."""

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

            pynvml.nvmlInit()  # reference-counted: cheap after the first call, and closed at the end of the process
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            self._library = pynvml

    @property
    def available(self) -> bool:
        return self._library is not None

    def ask(self, names: str, *args: object) -> object:
        """The answer of the first of these functions that works: some were renamed in newer drivers.

        A string argument names a constant of the library.
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

    def refusal(self, name: str) -> str:
        """Why a function gives no answer, in the library's words."""
        try:
            getattr(self._library, name)(self._handle)
        except Exception as error:
            return str(error) or type(error).__name__
        return "it answers now"

    def process_use(self, since: int) -> list[ProcessUse] | None:
        """The use of the GPU by each process after this time on NVML's clock; empty if no process used it."""
        if self._library is None:
            return None
        try:
            entries = self._library.nvmlDeviceGetProcessUtilization(self._handle, since)
        except Exception as error:  # pynvml raises "success" or "not found" for an empty list
            return [] if getattr(error, "value", None) in (0, _NOT_FOUND) else None
        return [ProcessUse(int(e.pid), int(e.smUtil), int(e.timeStamp)) for e in entries]


def gpu_architecture(index: int = 0) -> str | None:
    """`sm_90` of the GPU with this number among those that the driver lists; None where there is none."""
    with contextlib.suppress(Exception):
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        return "sm_{}{}".format(*pynvml.nvmlDeviceGetCudaComputeCapability(handle))
    return None
