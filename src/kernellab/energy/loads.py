"""Calls of one implementation in a row, on a GPU or a CPU, and how many had been made at which time.

Consecutive calls have different input sets, which is cold where the sets are larger than the cache. The cache is never
flushed: that would take energy too.
"""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from kernellab.energy.blocks import Load, Progress
from kernellab.timing.timer import COLD, WARM, Verify
from kernellab.timing.window import make_calls, prepare_window, wait_for

if TYPE_CHECKING:
    import torch

    from kernellab.timing.cuda_clock import Marks
    from kernellab.timing.timed_impl import TimedImpl

_GPU_CHUNK_US = 5000.0  # of calls that are queued together; between two chunks the counter is polled
_CPU_CHUNK_US = 2000.0
_MOST_CALLS = 64  # in a chunk: queueing more would take the host too long
_QUEUED_CHUNKS = 2  # so that the GPU never waits for the host, unless every call does


def load_of(impl: TimedImpl, device: torch.device, call_us: float, verify: Verify) -> CpuLoad | GpuLoad:
    """Calls of about `call_us` each. `verify` gets the result of the last one."""
    return GpuLoad(impl, device, call_us, verify) if device.type == "cuda" else CpuLoad(impl, call_us, verify)


def _calls(chunk_us: float, call_us: float) -> int:
    return max(1, min(_MOST_CALLS, int(chunk_us / max(call_us, 1e-3))))


class CpuLoad(Load):
    tail_us = None  # nothing is queued

    def __init__(self, impl: TimedImpl, call_us: float, verify: Verify) -> None:
        self._impl, self._count, self._verify = impl, _calls(_CPU_CHUNK_US, call_us), verify
        self._times, self._made = [monotonic()], [0.0]
        self._last: tuple[object, int] | None = None
        impl.sets.swap()

    def feed(self) -> None:
        self._last = None
        numbers, calls = prepare_window(self._impl, self._count, COLD, swap=False)
        result, index = make_calls(calls, WARM, self._impl)  # only the last result is kept
        self._times.append(monotonic())
        self._made.append(self._made[-1] + self._count)
        self._last = result, numbers[index]

    def finish(self) -> Progress:
        self.feed()
        assert self._last is not None
        self._verify(*self._last)
        return Progress(self._times, self._made)


class GpuLoad(Load):
    """`tail_us`: how long the device went on after its stream had ended."""

    def __init__(self, impl: TimedImpl, device: torch.device, call_us: float, verify: Verify) -> None:
        from kernellab.timing.cuda_clock import Marks

        self._impl, self._device, self._verify = impl, device, verify
        self._count, self._new_marks = _calls(_GPU_CHUNK_US, call_us), Marks
        self._queued: deque[Marks] = deque()
        self._last: tuple[object, int] | None = None
        self.tail_us = 0.0
        impl.sets.swap()
        wait_for(device)
        self._began = self._new_marks(device)
        self._began.start()
        wait_for(device)  # on an idle GPU the mark is now
        self._times, self._made = [monotonic()], [0.0]

    def feed(self) -> None:
        self._collect()
        while len(self._queued) < _QUEUED_CHUNKS:
            self._queue_chunk()

    def finish(self) -> Progress:
        self._queue_chunk()
        assert self._last is not None
        self._verify(*self._last)
        self._last = None
        self.tail_us = wait_for(self._device)
        self._collect()
        return Progress(self._times, self._made)

    def _queue_chunk(self) -> None:
        self._last = None
        marks = self._new_marks(self._device)
        numbers, calls = prepare_window(self._impl, self._count, COLD, swap=False)
        marks.start()
        result, index = make_calls(calls, WARM, self._impl)  # only the last result is kept
        marks.end()
        self._queued.append(marks)
        self._last = result, numbers[index]

    def _collect(self) -> None:
        """Note when chunks have ended."""
        while self._queued and self._queued[0].has_ended():
            marks = self._queued.popleft()
            self._times.append(self._times[0] + marks.us_since(self._began) / 1e6)
            self._made.append(self._made[-1] + self._count)
