"""A clock around windows of calls on the CPU: the base of the CPU's timers. Imports no torch."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from kernellab.timing.timer import COLD, Burst, BurstSpec, BurstTimer
from kernellab.timing.window import make_calls, make_lead_calls, prepare_window

if TYPE_CHECKING:
    import torch

    from kernellab.timing.timed_impl import TimedImpl

_SHORT_WINDOW_US = 5000.0  # in a shorter window 0.1 ms is noticeable


class CpuWindowTimer(BurstTimer):
    """Reads a clock before and after each window. A subclass provides the clock."""

    devices = ("cpu",)

    def __init__(self, device: torch.device, cache: str) -> None:
        from kernellab.timing.cache import CacheFlush

        super().__init__(device, cache)
        self._flush = CacheFlush(device) if cache == COLD else None
        self._short: dict[str, bool] = {}

    @staticmethod
    @abstractmethod
    def read_ns() -> int:
        """The clock's time in nanoseconds."""

    def burst(self, impl: TimedImpl, spec: BurstSpec) -> Burst:
        # Read before any call: an implementation can find `spec` in the frames that called it, and change it.
        read_ns, count, windows = self.read_ns, spec.calls, spec.windows
        make_lead_calls(impl, spec.lead_calls)
        samples_us: tuple[float, ...] = ()  # a tuple, which a later call cannot change
        for window in range(windows):
            # Emptying the cache also evicts the code, which costs the first call about 0.1 ms. Only the data should be
            # cold: short windows begin with an untimed call on other inputs.
            warm_code = self._flush is not None and self._short.get(impl.name, True)
            numbers, calls = prepare_window(impl, count + warm_code, self.cache, spec.swap and window == 0)
            if self._flush:
                self._flush()
            if warm_code or not (self._flush or impl.restores_inputs):
                calls[0]()
                calls, numbers = calls[1:], numbers[1:]
            start = read_ns()
            result, index = make_calls(calls, self.cache, impl)
            end = read_ns()
            samples_us = (*samples_us, (end - start) / 1e3 / count)
            self._short[impl.name] = samples_us[-1] * count < _SHORT_WINDOW_US
        spec.verify(result, numbers[index])
        return Burst(list(samples_us))
