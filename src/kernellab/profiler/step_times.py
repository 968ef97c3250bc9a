"""How long steps take, in stretches of them, with the GPU waited for at both ends of each."""

from __future__ import annotations

import atexit
import functools
import gc
import os
import statistics
import time

import torch

_SETTLING, _STRETCH, _ENOUGH = 2, 5, 6  # steps after a recording that are like no others; of a stretch; stretches
_TAKEN_DOWN_CALLS, _TAKEN_DOWN_S = 3, 0.02


class Pace:
    """Of steps of one kind: those recorded, or those that were not."""

    def __init__(self) -> None:
        self._stretches: list[tuple[int, float]] = []  # steps, and seconds of them together
        self._clock: tuple[int, float] | None = None  # at which step a stretch began, and when

    @property
    def steps(self) -> int:
        return sum(steps for steps, _ in self._stretches)

    @property
    def us(self) -> float | None:
        """Of a step: of the stretch in the middle, as one that something held up says nothing of the others."""
        each = [seconds / steps for steps, seconds in self._stretches]
        return statistics.median_low(each) * 1e6 if each else None

    @property
    def begun(self) -> bool:
        return self._clock is not None

    def begin(self, step: int) -> None:
        self._clock = step, _now()

    def end(self, step: int) -> None:
        if self._clock is not None and step > self._clock[0]:
            self._stretches.append((step - self._clock[0], _now() - self._clock[1]))
        self._clock = None

    def forget(self) -> None:
        """The stretch that was begun."""
        self._clock = None

    def follow(self, step: int, since: int) -> None:
        """A step has ended, and nothing has been recorded from step `since` on."""
        if len(self._stretches) == _ENOUGH or step < since + _SETTLING:
            return
        if self._clock is None:
            self.begin(step)
        elif step == self._clock[0] + _STRETCH:
            self.end(step)
            self.begin(step)


def unburden() -> None:
    """Before a recording ends, after which the program goes on alone: have torch take down NVIDIA's library.

    It would stay beside the program and cost every launch, a quarter of a launch-bound step, so that the steps timed
    afterwards would not be the program's own. A program with CUDA graphs keeps it: torch says that they may crash
    without. What takes it down waits for a call of CUDA's, and would wait at the program's end, so one is made there.
    """
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return
    if any(issubclass(type(one), torch.cuda.CUDAGraph) for one in gc.get_objects()):
        return
    if os.environ.setdefault("TEARDOWN_CUPTI", "1") == "1":
        _have_it_end(os.getpid())


@functools.cache
def _have_it_end(process: int) -> None:
    def call_cuda() -> None:
        for _ in range(_TAKEN_DOWN_CALLS if os.getpid() == process else 0):
            torch.cuda.synchronize()
            time.sleep(_TAKEN_DOWN_S)

    atexit.register(call_cuda)


def _now() -> float:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()
