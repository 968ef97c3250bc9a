"""A clock around a loop of calls: the base of the timers `host` and `launch`. Imports no torch."""

from __future__ import annotations

from abc import abstractmethod
from time import perf_counter_ns  # bound here: an implementation may replace time.perf_counter_ns
from typing import TYPE_CHECKING

from kernellab.timing.timer import WARM, Burst, BurstSpec, BurstTimer, NotApplicable
from kernellab.timing.window import make_lead_calls, prepare_window, refuse_tracing, wait_for

if TYPE_CHECKING:
    from kernellab.timing.timed_impl import TimedImpl


class HostLoopTimer(BurstTimer):
    """Host overhead per call hardly depends on the state of the cache: it is measured warm only."""

    devices = ("cuda",)
    caches = panel_caches = (WARM,)
    on_host = True
    least_calls = 20  # so that the wait at the end hardly counts

    def burst(self, impl: TimedImpl, spec: BurstSpec) -> Burst:
        if impl.restores_inputs:
            raise NotApplicable("a loop of calls cannot be timed if each call changes its inputs")
        count, windows = spec.calls, spec.windows  # before any call: an implementation could change `spec`
        make_lead_calls(impl, spec.lead_calls)
        samples_us: tuple[float, ...] = ()
        for window in range(windows):
            numbers, calls = prepare_window(impl, count, self.cache, spec.swap and window == 0)
            calls[0]()
            wait_for(self.device)
            start = perf_counter_ns()
            for call in calls[1:]:
                result = call()
            refuse_tracing()
            self.end_loop()
            samples_us = (*samples_us, (perf_counter_ns() - start) / 1e3 / count)
        spec.verify(result, numbers[-1])
        return Burst(list(samples_us), wait_for(self.device))

    @abstractmethod
    def end_loop(self) -> None:
        """Called at the end of the loop, inside the timed region."""
