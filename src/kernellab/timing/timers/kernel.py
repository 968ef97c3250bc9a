"""The `kernel` timer: the time of the kernels alone, as CUPTI reports it through torch's profiler."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kernellab.timing.timer import COLD, ProfilerTimer

if TYPE_CHECKING:
    import torch

    from kernellab.timing.timed_impl import Call

_RANGE = "kernellab call"


class KernelTimer(ProfilerTimer):
    """Launches and gaps between kernels do not count."""

    name = "kernel"
    devices = ("cuda",)
    panel_caches = (COLD,)
    overhead_rank = 0
    measures = "time in kernels alone (CUPTI)"
    help = "time in kernels alone"

    def __init__(self, device: torch.device, cache: str) -> None:
        from kernellab.timing.cache import CacheFlush

        super().__init__(device, cache)
        self._flush = CacheFlush(device) if cache == COLD else None

    def window_times_us(self, windows: Sequence[Callable[[], list[Call]]]) -> list[float]:
        """One profiler session for all windows: starting one is slow, and so are the first calls in it."""
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # otherwise the profiler writes to standard error
        import torch
        from torch._C._autograd import DeviceType
        from torch.autograd.profiler import profile, record_function  # torch.profiler imports Inductor: seconds

        sizes = []
        with profile(use_kineto=True, use_device="cuda", acc_events=True) as profiler:
            for number, prepare in enumerate(windows):
                calls = prepare()
                if self._flush:
                    self._flush()
                else:
                    calls.pop(0)()
                sizes.append(len(calls))
                torch.cuda.synchronize()
                with record_function(f"{_RANGE} {number}"):
                    results = [call() for call in calls]
                    torch.cuda.synchronize()  # so that the range on the host encloses everything on the GPU
                del results
        events = profiler.function_events or []
        kernels = [e for e in events if e.device_type == DeviceType.CUDA and not e.is_user_annotation]
        ranges = {e.name: e.time_range for e in events if e.device_type == DeviceType.CPU and e.name.startswith(_RANGE)}
        times_us = []
        for number, size in enumerate(sizes):
            span = ranges[f"{_RANGE} {number}"]
            inside = (e.time_range for e in kernels if span.start <= e.time_range.start <= span.end)
            times_us.append(sum(t.end - t.start for t in inside) / size)
        return times_us
