"""How long steps take: measured over stretches of steps, with the GPU synchronised at both ends of each."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import torch

_SETTLING_STEPS = 2  # not timed: they are slowed by the end of a recording
_STRETCH_STEPS = 5
_MOST_STRETCHES = 6


@dataclass(frozen=True)
class _Stretch:
    steps: int
    seconds: float


class StepTimes:
    """Times of one kind of steps: those recorded, or those not recorded."""

    def __init__(self) -> None:
        self._stretches: list[_Stretch] = []
        self._open: tuple[int, float] | None = None  # the first step of the stretch being timed, and when it began

    @property
    def steps(self) -> int:
        return sum(stretch.steps for stretch in self._stretches)

    @property
    def step_us(self) -> float | None:
        """The time of a step in the median stretch, so that an interruption of one stretch does not count."""
        step_times = [stretch.seconds / stretch.steps for stretch in self._stretches]
        return statistics.median_low(step_times) * 1e6 if step_times else None

    @property
    def timing(self) -> bool:
        """Whether a stretch is being timed."""
        return self._open is not None

    def begin(self, step: int) -> None:
        self._open = step, _now()

    def end(self, step: int) -> None:
        if self._open is not None and step > self._open[0]:
            self._stretches.append(_Stretch(step - self._open[0], _now() - self._open[1]))
        self._open = None

    def discard(self) -> None:
        """Drop the stretch being timed."""
        self._open = None

    def continue_after(self, recording_end: int, step: int) -> None:
        """Called after each step once recording has ended, at step `recording_end`: time up to six stretches."""
        if len(self._stretches) == _MOST_STRETCHES or step < recording_end + _SETTLING_STEPS:
            return
        if self._open is None:
            self.begin(step)
        elif step == self._open[0] + _STRETCH_STEPS:
            self.end(step)
            self.begin(step)


def _now() -> float:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()
