"""Timers: one contract, one question each.

`timer.burst(work, windows=2, calls=8, lead=1, turn=True, after=…)` opens two windows of eight calls each and
returns the time of a call in each, in microseconds. Cold windows start with an emptied cache and use every
input set once; warm ones repeat one set. `lead` calls go before, untimed. `turn` lets the inputs change
contents first. `after(result, number)` is called
with a result of the last window and its input set as soon as everything is queued: what it queues runs right behind the
last call, on the same stream, and is waited for together with it.
"""

from __future__ import annotations

import contextlib
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns  # bound here: a way may replace time.perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

import torch

from kernellab.timing.cache import Flush
from kernellab.timing.work import Call, Work

if TYPE_CHECKING:
    from kernellab.timing.hold import Hold

_FLOOR_WINDOWS = 15
_QUICK_US = 5000.0  # windows below this would notice 0.1 ms

After = Callable[[Any, int], None]


@dataclass
class Burst:
    """`samples`: microseconds per call, one for each window. `tail_us`: how long the device went on working
    after the stream had ended. `held`: whether the stream was held back all the time (None: it need not be)."""

    samples: list[float]
    tail_us: float | None = None
    held: bool | None = None


class Timer(Protocol):
    name: str
    cache: str
    least_calls: int  # per window
    lacks: str | None  # what it would need to be as good as it can be

    def burst(self, work: Work, *, windows: int, calls: int, lead: int, turn: bool, after: After) -> Burst: ...

    def floor_us(self, calls: int) -> float | None:
        """What a call that does nothing takes in a window of so many, where that is known."""


class EventTimer:
    """CUDA events around calls that were all queued before the first of them ran: time on the GPU's stream.

    Includes what any stream pays between kernels, about a microsecond a launch.
    """

    name = "events"
    least_calls = 1

    def __init__(self, device: torch.device, cache: str) -> None:
        self.cache = cache
        self._device = device
        self._flush = Flush(device) if cache == "cold" else None
        self._hold = _hold(device)
        self._late: Counter[str] = Counter()
        self.lacks = None if self._hold else "CUDA C++ cannot be built here, so that the stream cannot be held back"

    def burst(self, work: Work, *, windows: int, calls: int, lead: int, turn: bool, after: After) -> Burst:
        # A way that waits for the GPU itself cannot be held back: seen twice with a single call, it is not tried again.
        hold = self._hold if self._late[work.name] < 2 else None
        pairs = []
        for window in range(windows):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            turning = turn and window == 0
            if window == 0:
                _lead_in(work, lead)
            early = _ready(work, calls, self.cache, turning) if work.early else None
            with hold() if hold else contextlib.nullcontext():
                # Behind the hold: work on another stream that does not wait sees the old contents.
                numbers, ready = early or _ready(work, calls, self.cache, turning)
                if self._flush:
                    self._flush()
                elif not work.restores:
                    ready.pop(0)()
                start.record()
                result, at = _made(ready, self.cache, work)
                end.record()
            pairs.append((start, end))
            del ready
        after(result, numbers[at])
        del result
        tail_us = _wait(self._device)
        held = not hold.gave_up() if hold else None
        if calls == 1:
            self._late[work.name] = self._late[work.name] + 1 if held is False else 0
        if self._hold and not hold:
            held = False
        return Burst([start.elapsed_time(end) * 1e3 / calls for start, end in pairs], tail_us, held)

    def floor_us(self, calls: int) -> float | None:
        if self._hold is None:
            return None
        times: list[float] = []
        for _ in range(_FLOOR_WINDOWS):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            with self._hold():
                if self._flush:
                    self._flush()
                start.record()
                for _ in range(calls):
                    self._hold.nothing()
                end.record()
            _wait(self._device)
            times.append(start.elapsed_time(end) * 1e3 / calls)
        return statistics.median(times)


class ClockTimer:
    """A monotonic clock around the calls: time on the CPU."""

    name = "clock"
    least_calls = 1
    lacks: str | None = None

    def __init__(self, device: torch.device, cache: str) -> None:
        self.cache = cache
        self._flush = Flush(device) if cache == "cold" else None
        self._quick: dict[str, bool] = {}

    def burst(self, work: Work, *, windows: int, calls: int, lead: int, turn: bool, after: After) -> Burst:
        _lead_in(work, lead)
        samples = []
        for window in range(windows):
            # Emptying the cache throws the program itself out of it too, about 0.1 ms to a first call. The data is to
            # be cold, not the code: where that counts, a call on other inputs goes first.
            code = self._flush is not None and self._quick.get(work.name, True)
            numbers, ready = _ready(work, calls + code, self.cache, turn and window == 0)
            if self._flush:
                self._flush()
            if code or not (self._flush or work.restores):
                ready.pop(0)()
                numbers.pop(0)
            start = perf_counter_ns()
            result, at = _made(ready, self.cache, work)
            end = perf_counter_ns()
            samples.append((end - start) / 1e3 / calls)
            self._quick[work.name] = samples[-1] * calls < _QUICK_US
        after(result, numbers[at])
        return Burst(samples)

    def floor_us(self, calls: int) -> float | None:
        return None  # a call of nothing takes some tens of ns


class HostTimer:
    """A clock around a loop of calls and the wait for the last of them: what an eager program pays per call."""

    name = "host"
    cache = "warm"
    least_calls = 20  # so that the one wait at the end hardly counts
    lacks: str | None = None

    def __init__(self, device: torch.device, cache: str) -> None:
        self._device = device

    def burst(self, work: Work, *, windows: int, calls: int, lead: int, turn: bool, after: After) -> Burst:
        if work.restores:
            raise NotApplicable("a loop of calls is not timed where each call changes its inputs")
        _lead_in(work, lead)
        samples = []
        for window in range(windows):
            numbers, ready = _ready(work, calls, self.cache, turn and window == 0)
            ready.pop(0)()
            _wait(self._device)
            start = perf_counter_ns()
            for call in ready:
                result = call()
            samples.append((self._end() - start) / 1e3 / calls)
        after(result, numbers[-1])
        return Burst(samples, _wait(self._device))

    def floor_us(self, calls: int) -> float | None:
        return None

    def _end(self) -> int:
        _wait(self._device)
        return perf_counter_ns()


class LaunchTimer(HostTimer):
    """A clock around a loop of calls that nobody waits for: launching alone. Not how long anything takes."""

    name = "launch"

    def _end(self) -> int:
        return perf_counter_ns()


class GraphTimer:
    """CUDA events around the replay of a graph of calls, each on its own inputs: the GPU without launches."""

    name = "graph"
    least_calls = 8  # a replay has a cost of its own
    lacks: str | None = None

    def __init__(self, device: torch.device, cache: str) -> None:
        self.cache = cache
        self._device = device
        self._flush = Flush(device) if cache == "cold" else None
        self._hold = _hold(device)
        self._graphs: dict[str, tuple[int, torch.cuda.CUDAGraph, Any, int]] = {}

    def burst(self, work: Work, *, windows: int, calls: int, lead: int, turn: bool, after: After) -> Burst:
        if work.early or work.restores:
            raise NotApplicable("only a forward pass that leaves its inputs alone is captured in a graph")
        if self._graphs.get(work.name, (0,))[0] != calls:
            self._graphs.pop(work.name, None)  # its results' memory first
            self._graphs[work.name] = (calls, *self._capture(work, calls))
        _, graph, result, number = self._graphs[work.name]
        pairs = []
        for window in range(windows):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            with self._hold() if self._hold else contextlib.nullcontext():
                if turn and window == 0:
                    work.sets.turn()
                if self._flush:
                    self._flush()
                else:
                    graph.replay()
                start.record()
                graph.replay()
                end.record()
            pairs.append((start, end))
        after(result, number)
        tail_us = _wait(self._device)
        return Burst([start.elapsed_time(end) * 1e3 / calls for start, end in pairs], tail_us)

    def floor_us(self, calls: int) -> float | None:
        return None

    def _capture(self, work: Work, calls: int) -> tuple[torch.cuda.CUDAGraph, Any, int]:
        numbers = work.draw(calls, distinct=self.cache == "cold")
        ready = work.calls(numbers)
        side = torch.cuda.Stream(self._device)
        side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(side):  # whatever is allocated or loaded once is, before the capture
            for call in ready:
                call()
        torch.cuda.current_stream(self._device).wait_stream(side)
        _wait(self._device)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                result, at = _made(ready, self.cache, work)
        except Exception as error:
            raise NotApplicable(f"cannot be captured in a CUDA graph: {error}") from error
        return graph, result, numbers[at]


class NotApplicable(Exception):
    """A way this timer cannot time; no fault of the way."""


TIMERS: dict[str, Callable[[torch.device, str], Timer]] = {
    "events": EventTimer,
    "graph": GraphTimer,
    "host": HostTimer,
    "launch": LaunchTimer,
    "clock": ClockTimer,
}


def timer_for(device: torch.device, name: str = "auto", cache: str = "cold") -> Timer:
    """The timer of that name; `auto` is events on a GPU and the clock on the CPU."""
    if name == "auto":
        name = "events" if device.type == "cuda" else "clock"
    return TIMERS[name](device, cache)


def _ready(work: Work, calls: int, cache: str, turn: bool) -> tuple[list[int], list[Call]]:
    """A window's calls, prepared: each on its own input set, or all on one with one more to warm the cache."""
    if turn:
        work.sets.turn()
    work.sets.touch()
    warm = cache == "warm"
    numbers = work.draw(calls + (warm and not work.restores), distinct=not warm)
    return numbers, work.calls(numbers)


def _made(ready: list[Call], cache: str, work: Work) -> tuple[Any, int]:
    """Make the calls; one of the results, and which it is.

    Cold, all results are kept meanwhile, each at its own address: rewriting one would hit the cache. Any of them
    may be asked for, so that no call can be skipped safely. Warm, there is only the last.
    """
    if cache == "cold":
        kept = [call() for call in ready]
        at = work.any_of(len(kept))
        return kept[at], at
    for call in ready:
        result = call()
    return result, -1


def _lead_in(work: Work, count: int) -> None:
    """Calls that are not timed: how many there are changes which of the timed calls is every second one."""
    for call in work.calls(work.draw(count, distinct=True)):
        call()


def _wait(device: torch.device) -> float:
    """Wait for the stream, then for the device: microseconds the device went on after the stream had ended."""
    if device.type != "cuda":
        return 0.0
    torch.cuda.current_stream(device).synchronize()
    began = perf_counter_ns()
    torch.cuda.synchronize(device)
    return (perf_counter_ns() - began) / 1e3


def _hold(device: torch.device) -> Hold | None:
    try:
        from kernellab.timing.hold import Hold

        return Hold(device)
    except Exception:  # CUDA C++ cannot be built here: events without a hold still tell the time of long calls
        return None
