"""Time in kernels alone, as CUPTI tells it through torch.profiler: nothing of launches and gaps."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import torch

from kernellab.timing.cache import Flush
from kernellab.timing.work import Call

_RANGE = "kernellab call"


def kernel_times(windows: Sequence[Callable[[], list[Call]]], flush: Flush | None) -> list[float]:
    """Prepare each window's calls and make them; the microseconds all its kernels took, per call.

    Without a flush the first call of a window warms the cache and is not counted.

    One profiler session for all windows: starting one is slow, and the first calls in it are.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or the profiler announces itself on standard error
    from torch._C._autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile, record_function

    sizes = []
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as profiler:
        for number, prepare in enumerate(windows):
            calls = prepare()
            if flush:
                flush()
            else:
                calls.pop(0)()
            sizes.append(len(calls))
            torch.cuda.synchronize()
            with record_function(f"{_RANGE} {number}"):
                kept = [call() for call in calls]
                torch.cuda.synchronize()  # so that the range on the host holds everything on the GPU
            del kept
    events = profiler.events() or []
    kernels = [e for e in events if e.device_type == DeviceType.CUDA and not e.is_user_annotation]
    ranges = {e.name: e.time_range for e in events if e.device_type == DeviceType.CPU and e.name.startswith(_RANGE)}
    times = []
    for number, size in enumerate(sizes):
        span = ranges[f"{_RANGE} {number}"]
        inside = (e.time_range for e in kernels if span.start <= e.time_range.start <= span.end)
        times.append(sum(t.end - t.start for t in inside) / size)
    return times
