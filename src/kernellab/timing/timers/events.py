"""The `events` timer: CUDA events around calls that are all queued before the first one runs."""

from __future__ import annotations

import contextlib
import statistics
from collections import Counter
from typing import TYPE_CHECKING

from kernellab.timing.timer import COLD, Burst, BurstSpec, BurstTimer
from kernellab.timing.window import make_calls, make_lead_calls, prepare_window, try_hold, wait_for

if TYPE_CHECKING:
    import torch

    from kernellab.timing.timed_impl import TimedImpl

_FLOOR_WINDOWS = 15
_LATE_BURSTS = 2  # consecutive bursts of one call after which the stream is no longer held back


class EventTimer(BurstTimer):
    """Includes the overhead of a stream between kernels, about a microsecond per launch."""

    name = "events"
    devices = default_on = ("cuda",)
    overhead_rank = 2
    measures = "time on the GPU's stream, launches queued ahead"
    help = "time on the GPU's stream, the default there"

    def __init__(self, device: torch.device, cache: str) -> None:
        from kernellab.timing.cache import CacheFlush
        from kernellab.timing.cuda_clock import Marks

        super().__init__(device, cache)
        self._new_marks = Marks
        self._flush = CacheFlush(device) if cache == COLD else None
        self._hold = try_hold(device)
        self._late: Counter[str] = Counter()
        if self._hold is None:
            self.limitation = "CUDA C++ cannot be built here, so the stream cannot be held back"

    def burst(self, impl: TimedImpl, spec: BurstSpec) -> Burst:
        # Before any call: an implementation can find `spec` in the frames that called it, and change it.
        count, windows = spec.calls, spec.windows
        # If an implementation itself waits for the GPU, the stream cannot be held back. After it was late twice with a
        # single call, the hold is not tried again.
        hold = self._hold if self._late[impl.name] < _LATE_BURSTS else None
        marks = []
        for window in range(windows):
            mark = self._new_marks(self.device)
            swap = spec.swap and window == 0
            if window == 0:
                make_lead_calls(impl, spec.lead_calls)
            prepared = prepare_window(impl, count, self.cache, swap) if impl.prepare_runs_impl else None
            with hold() if hold else contextlib.nullcontext():
                # Contents are swapped behind the hold: work on another stream that does not wait reads the old ones.
                numbers, calls = prepared or prepare_window(impl, count, self.cache, swap)
                if self._flush:
                    self._flush()
                elif not impl.restores_inputs:
                    calls[0]()
                    calls = calls[1:]
                mark.start()
                result, index = make_calls(calls, self.cache, impl)
                mark.end()
            marks.append(mark)
            del calls
        spec.verify(result, numbers[index])
        del result
        tail_us = wait_for(self.device)
        held = not hold.gave_up() if hold else None
        if count == 1:
            self._late[impl.name] = self._late[impl.name] + 1 if held is False else 0
        if self._hold and not hold:
            held = False
        return Burst([mark.elapsed_us() / count for mark in marks], tail_us, held)

    def floor_us(self, calls: int) -> float | None:
        """The median over a few windows of empty kernels."""
        if self._hold is None:
            return None
        times_us: list[float] = []
        for _ in range(_FLOOR_WINDOWS):
            mark = self._new_marks(self.device)
            with self._hold():
                if self._flush:
                    self._flush()
                mark.start()
                for _ in range(calls):
                    self._hold.launch_empty_kernel()
                mark.end()
            wait_for(self.device)
            times_us.append(mark.elapsed_us() / calls)
        return statistics.median(times_us)
