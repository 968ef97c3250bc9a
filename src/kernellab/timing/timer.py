"""The contract of a timer: the attributes of its class, and what it measures.

A timer is a class in a module of its own under `timing/timers`. Nothing else has to be edited: the settings, the help,
the panel and the verdicts read the attributes below. The process of the command reads them too, so such a module
imports torch inside its methods only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import torch

    from kernellab.timing.timed_impl import Call, TimedImpl

COLD, WARM = "cold", "warm"

# Called with a result of the last window and the number of its input set, as soon as everything is queued. The work it
# queues runs right after the last call, on the same stream, and the timer waits for both together.
Verify = Callable[[object, int], None]


class Timer(ABC):
    """Answers one question about speed, which a subclass states in its attributes."""

    name: ClassVar[str]  # as in `--timer NAME` and in the record
    devices: ClassVar[tuple[str, ...]]  # of "cuda" and "cpu"
    default_on: ClassVar[tuple[str, ...]] = ()  # devices on which `--timer auto` means this timer
    caches: ClassVar[tuple[str, ...]] = (COLD, WARM)  # states of the cache it can time; for others the first is used
    panel_caches: ClassVar[tuple[str, ...]] = (COLD, WARM)  # those that `--panel` shows
    # False: it does not measure how long a call takes. It gives no rate and no share of the limit, and implementations
    # are compared by it only if no other timer was requested.
    is_duration: ClassVar[bool] = True
    on_host: ClassVar[bool] = False  # it times the caller, not the device that computes
    needs_profiler: ClassVar[bool] = False  # it has its own worker, because a profiler slows everything after it
    # The panel lists timers from the least overhead in their numbers to the most. Timers of a device have unique ranks.
    overhead_rank: ClassVar[int]
    measures: ClassVar[str]  # the panel's explanation of the number
    help: ClassVar[str]  # a few words for `--help`

    def __init__(self, device: torch.device, cache: str) -> None:
        self.device, self.cache = device, cache


@dataclass(frozen=True)
class BurstSpec:
    """What a burst runs: `windows` windows of `calls` calls each."""

    calls: int
    windows: int = 1
    lead_calls: int = 0  # untimed calls before the first window
    swap: bool = False  # let the input sets swap contents before the first window
    verify: Verify = lambda result, number: None


@dataclass
class Burst:
    """What a burst measured."""

    samples_us: list[float]  # per call, one for each window
    tail_us: float | None = None  # how long the device kept working after the stream had finished
    stream_held: bool | None = None  # whether the stream was held back the whole time; None: not needed


class BurstTimer(Timer):
    """Times windows of calls in a worker, in rounds that interleave the implementations.

    A cold window starts with an emptied cache, and each call has an input set of its own. A warm window repeats one
    input set, after one untimed call on it.
    """

    least_calls: ClassVar[int] = 1  # per window
    limitation: str | None = None  # why its times are less exact on this machine

    @abstractmethod
    def burst(self, impl: TimedImpl, spec: BurstSpec) -> Burst:
        """Run the windows; raise `NotApplicable` if this timer cannot time the implementation."""

    def floor_us(self, calls: int) -> float | None:
        """The time of a call that does nothing, in a window of this many calls; None if it is not known."""
        return None


class ProfilerTimer(Timer):
    """Reads the times of many windows from one profiler session."""

    needs_profiler = True

    @abstractmethod
    def window_times_us(self, windows: Sequence[Callable[[], list[Call]]]) -> list[float]:
        """Prepare and run each window's calls; returns the time per call of each window. A warm window has one more
        call, which is not timed."""


class BurstChanged(Exception):
    """An implementation changed the description of the burst that it was timed in."""


class NotApplicable(Exception):
    """This timer cannot time the implementation, which does not make the implementation wrong."""
