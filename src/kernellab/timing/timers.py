"""Timers: one contract, one answer each.

`timer.sample(call)` empties the cache, runs the call once and returns its time in microseconds.
`name` says what was read, `cache` in what state the call found its data.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns  # bound here: a way may replace time.perf_counter_ns
from typing import Any, Protocol

import torch

from kernellab.timing.cache import Flush


class Timer(Protocol):
    name: str
    cache: str

    def sample(self, call: Callable[[], Any]) -> float: ...


# The GPU is kept busy this long before the first event, so that the host has queued the whole call by
# then: about 0.25 ms, twice what launching a compiled graph or nine small kernels takes.
_HEAD_START_CYCLES = 500_000


class EventTimer:
    """CUDA events on the current stream: time on the GPU, the host's launch work hidden behind the flush."""

    name = "events"
    cache = "cold"

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._flush = Flush(device)
        self._start = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)

    def sample(self, call: Callable[[], Any]) -> float:
        self._flush()
        torch.cuda._sleep(_HEAD_START_CYCLES)
        self._start.record()
        result = call()  # kept until the end: freeing it is not part of the call
        self._end.record()
        torch.cuda.synchronize(self._device)
        del result
        return float(self._start.elapsed_time(self._end)) * 1e3


class ClockTimer:
    """A monotonic clock around the call: time on the CPU."""

    name = "clock"
    cache = "cold"

    def __init__(self, device: torch.device) -> None:
        self._flush = Flush(device)

    def sample(self, call: Callable[[], Any]) -> float:
        self._flush()
        start = perf_counter_ns()
        result = call()
        end = perf_counter_ns()
        del result
        return (end - start) / 1e3


def timer_for(device: torch.device) -> Timer:
    return EventTimer(device) if device.type == "cuda" else ClockTimer(device)
