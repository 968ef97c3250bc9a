"""The `clock` timer: a monotonic clock around calls on the CPU."""

from __future__ import annotations

from time import perf_counter_ns  # bound here: an implementation may replace time.perf_counter_ns
from typing import TYPE_CHECKING

from kernellab.timing.timer import COLD, Burst, BurstSpec, BurstTimer
from kernellab.timing.window import make_calls, make_lead_calls, prepare_window

if TYPE_CHECKING:
    import torch

    from kernellab.timing.timed_impl import TimedImpl

_SHORT_WINDOW_US = 5000.0  # in a shorter window 0.1 ms would show


class ClockTimer(BurstTimer):
    """An empty call takes tens of nanoseconds, so there is no floor to subtract."""

    name = "clock"
    devices = default_on = ("cpu",)
    overhead_rank = 3
    measures = "time on the CPU"
    help = "time on the CPU, the default there"

    def __init__(self, device: torch.device, cache: str) -> None:
        from kernellab.timing.cache import Flush

        super().__init__(device, cache)
        self._flush = Flush(device) if cache == COLD else None
        self._short: dict[str, bool] = {}

    def burst(self, impl: TimedImpl, spec: BurstSpec) -> Burst:
        make_lead_calls(impl, spec.lead_calls)
        samples_us = []
        for window in range(spec.windows):
            # Emptying the cache evicts the program too, which costs the first call about 0.1 ms. The data is to be
            # cold, not the code: in short windows an untimed call on other inputs goes first.
            warm_code = self._flush is not None and self._short.get(impl.name, True)
            numbers, calls = prepare_window(impl, spec.calls + warm_code, self.cache, spec.swap and window == 0)
            if self._flush:
                self._flush()
            if warm_code or not (self._flush or impl.restores_inputs):
                calls.pop(0)()
                numbers.pop(0)
            start = perf_counter_ns()
            result, index = make_calls(calls, self.cache, impl)
            end = perf_counter_ns()
            samples_us.append((end - start) / 1e3 / spec.calls)
            self._short[impl.name] = samples_us[-1] * spec.calls < _SHORT_WINDOW_US
        spec.verify(result, numbers[index])
        return Burst(samples_us)
