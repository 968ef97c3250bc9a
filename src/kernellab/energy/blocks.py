"""One block: calls in a row, while the energy counter is polled until its steps determine their energy well enough.

A counter moves in steps, tens of milliseconds apart on a GPU. Between two steps its difference is exact, and the calls
in this time are known: so a block begins and ends with a step, and is as long as the uncertainty of their times needs.
"""

from __future__ import annotations

import bisect
import itertools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Protocol

from kernellab.energy.counters import EnergyCounter, EnergyUnknown

Clock = Callable[[], float]

_POLL_S = 0.0002
_OBSERVE_S = 0.05
_STALLED_S = 2.0  # a counter that does not move for so long is of no use
_IDLE_S = 0.6
_RESPONSE_S = (2.0, 2.0, 4.0)  # the later ones for a counter that follows slowly
_LEAD = 1.5  # a filter that is within 5 % after some time is within 1 % after one and a half times as long
_SETTLED, _SETTLING_S = 0.05, 0.1  # the power is as it stays, within this share, over this time: steps are noisy
_STEADY_STEPS = 3


@dataclass(frozen=True)
class Progress:
    """How many calls a load had made at these times, in seconds."""

    times: Sequence[float]
    calls: Sequence[float]

    def at(self, time: float) -> float:
        """Interpolated between two times, because calls in a row take equally long."""
        right = min(max(1, bisect.bisect_left(self.times, time)), len(self.times) - 1)
        (t0, t1), (c0, c1) = (values[right - 1 : right + 1] for values in (self.times, self.calls))
        return c0 + (c1 - c0) * (time - t0) / (t1 - t0) if t1 > t0 else c1


class Load(Protocol):
    """Calls of one implementation in a row."""

    def feed(self) -> None:
        """Keep the device busy: make some calls, or queue them and return."""

    def finish(self) -> Progress:
        """End all calls. They go on a little beyond the last `feed`."""


@dataclass(frozen=True)
class Plan:
    """How long blocks are. `resolution`: the share of the energy that the steps of the counter may leave uncertain."""

    least_s: float = 0.3
    most_s: float = 6.0
    resolution: float = 0.005


@dataclass(frozen=True)
class Response:
    """How the counter behaves on this machine, measured."""

    idle_w: float
    step_s: float  # between two steps
    lead_s: float  # until the power of the steps is that of the load


@dataclass(frozen=True)
class Block:
    joules: float  # per call
    us: float  # per call
    watts: float
    clock_mhz: float | None
    seconds: float
    resolution: float


@dataclass(frozen=True)
class Step:
    """A step of the counter: when it happened, how uncertain that is, and the counter after it."""

    time: float
    uncertain_s: float
    joules: float


@dataclass
class Poller:
    """Polls a counter for its steps; `step_s` is the time between two, if it is known."""

    counter: EnergyCounter
    clock: Clock = monotonic
    pause: Callable[[float], None] = sleep
    step_s: float | None = None
    _last: float = 0.0
    _polled: float = field(default=-1.0)

    def poll(self) -> Step | None:
        """The last step of the counter, if there was one since the poll before."""
        joules = self.counter.joules()
        now, before, last = self.clock(), self._polled, self._last
        self._polled, self._last = now, joules
        if before < 0 or joules == last:
            return None
        # It happened since the poll before, and a counter with short steps cannot be older than one of them.
        since = now - before if self.step_s is None else min(now - before, self.step_s)
        return Step(now - since / 2, since / 2, joules)

    def forget(self) -> None:
        """Ignore what happens until the next poll."""
        self._polled = -1.0


def measure_response(poller: Poller, load: Load) -> Response:
    """How the counter follows the power: first without work, then with this load."""
    idle = _steps(poller, lambda: None, _IDLE_S)
    busy: list[Step] = []
    for seconds in _RESPONSE_S:
        busy += _steps(poller, load.feed, seconds)
        settle_s = _time_to_settle(busy)
        if settle_s < (busy[-1].time - busy[0].time) / 2:
            break  # the last third, which it is compared with, is settled
    load.finish()
    # A load may keep the host from polling, and an idle counter may move less often.
    poller.step_s = min(statistics.median(_gaps(steps)) for steps in (idle, busy))
    return Response(_watts(idle[0], idle[-1]), poller.step_s, _LEAD * settle_s + poller.step_s)


def run_block(poller: Poller, load: Load, plan: Plan, response: Response, observe: Callable[[], float | None]) -> Block:
    """Run a load, and measure its energy from a step of the counter to another one.

    `observe` returns the clock of the device, and is called at intervals.
    """
    poller.forget()
    began = observed = poller.clock()
    first, last = None, None
    clocks: list[float] = []
    while last is None:
        load.feed()
        step, now = poller.poll(), poller.clock()
        if step is not None and first is None and now - began >= response.lead_s:
            first = step
        elif step is not None and first is not None and _resolution(first, step) <= plan.resolution:
            last = step if step.time - first.time >= plan.least_s else None
        if first is not None and now - observed >= _OBSERVE_S:
            observed = now
            clocks += [mhz for mhz in (observe(),) if mhz]
        if now - began > response.lead_s + plan.most_s:
            raise EnergyUnknown(f"its steps are too coarse to measure the energy of {plan.most_s:.0f} s")
        poller.pause(_POLL_S)
    assert first is not None
    progress = load.finish()
    calls = progress.at(last.time) - progress.at(first.time)
    seconds = last.time - first.time
    return Block(
        joules=(last.joules - first.joules) / calls,
        us=seconds / calls * 1e6,
        watts=_watts(first, last),
        clock_mhz=statistics.median(clocks) if clocks else None,
        seconds=seconds,
        resolution=_resolution(first, last),
    )


def _steps(poller: Poller, work: Callable[[], None], seconds: float) -> list[Step]:
    """The steps of the counter in this time; at least three."""
    poller.forget()
    began = poller.clock()
    moved = began
    steps: list[Step] = []
    while poller.clock() - began < seconds or len(steps) < _STEADY_STEPS:
        work()
        step = poller.poll()
        if step is not None:
            steps.append(step)
            moved = poller.clock()
        elif poller.clock() - moved > _STALLED_S:
            raise EnergyUnknown(f"the energy counter did not move within {_STALLED_S:.0f} s")
        poller.pause(_POLL_S)
    return steps


def _gaps(steps: Sequence[Step]) -> list[float]:
    return [later.time - step.time for step, later in itertools.pairwise(steps)]


def _time_to_settle(steps: Sequence[Step]) -> float:
    """Until the power stays what it is in the last third of the steps, counted from the first step."""
    count = max(1, round(_SETTLING_S / (statistics.median(_gaps(steps)) or _SETTLING_S)))
    powers = [(last.time, _watts(first, last)) for first, last in zip(steps, steps[count:], strict=False)]
    powers = powers or [(steps[-1].time, _watts(steps[0], steps[-1]))]
    final = statistics.median(power for _, power in powers[-max(1, len(powers) // 3) :])
    unsettled = [time for time, power in powers if abs(power - final) > _SETTLED * final]
    return max(unsettled, default=steps[0].time) - steps[0].time


def _watts(first: Step, last: Step) -> float:
    return (last.joules - first.joules) / (last.time - first.time)


def _resolution(first: Step, last: Step) -> float:
    seconds = last.time - first.time
    return (first.uncertain_s + last.uncertain_s) / seconds if seconds > 0 else float("inf")
