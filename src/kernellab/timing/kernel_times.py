"""Time in kernels alone, as CUPTI tells it through torch.profiler: nothing of launches and gaps."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import torch

from kernellab.timing.cache import Flush
from kernellab.timing.work import Call

_RANGE = "kernellab call"


def kernel_times(prepare: Sequence[Callable[[], Call]], flush: Flush | None) -> list[float]:
    """Prepare and make each call, one after the other; the microseconds of all kernels of each, added up.

    One profiler session for all of them: starting one is slow, and the first calls in it are.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or the profiler announces itself on standard error
    from torch._C._autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as profiler:
        for number, make in enumerate(prepare):
            call = make()
            if flush:
                flush()
            torch.cuda.synchronize()
            with record_function(f"{_RANGE} {number}"):
                call()
                torch.cuda.synchronize()  # so that the range on the host holds everything on the GPU
    events = profiler.events() or []
    kernels = [e for e in events if e.device_type == DeviceType.CUDA and not e.is_user_annotation]
    ranges = {e.name: e.time_range for e in events if e.device_type == DeviceType.CPU and e.name.startswith(_RANGE)}
    times = []
    for number in range(len(prepare)):
        span = ranges[f"{_RANGE} {number}"]
        inside = (e.time_range for e in kernels if span.start <= e.time_range.start <= span.end)
        times.append(sum(t.end - t.start for t in inside))
    return times
