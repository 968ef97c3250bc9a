"""What a step would take if something were change: the program's calls run again, on paper.

The CPU is one line of calls that ask the GPU for work or wait for it, with the time in between as it was measured; each
stream does what it was asked for in order, as long as it took. Take a wait away and the CPU runs ahead; take the CPU's
work away and the GPU sets the pace. Threads that launch in turn (autograd's and the one that called it) are one line.

A profiler slows the CPU with every row it writes. Where the time of a step without one is known, rows are charged what
makes the replay take that time, elsewhere what they usually cost; so a gain is said of the program as it runs, not as
it is watched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernellab.traces.trace import Column, Rows
from kernellab.traceview import profiler_overhead as watched
from kernellab.traceview.profiler_overhead import ProfilerOverhead
from kernellab.traceview.row_tree import Mask, take
from kernellab.traceview.view import View

Interval = tuple[int, int]

_QUEUE = 1024  # launches CUDA holds before a further one waits
_ENOUGH = 4  # steps, to do without the first
_MOST_CALLS = 30_000  # of a long trace, so many calls' worth of steps stand for all
_BLOCKED = 20  # times as long as most launches: it waited for room in the queue
_PAUSE_NS = 1_000  # between two kernels already asked for, where none show it
_LATENCY_NS = 4_000  # from a launch to its kernel, where none show it
_ROUNDS = 24
_PAGEABLE = r"(?i)pageable"


@dataclass(frozen=True)
class Change:
    """What is changed: stretches of CPU time that are gone with all they asked for, waits that no longer block, and
    rows of the GPU that take another time."""

    gone: Sequence[Interval] = ()
    unblocked: frozenset[int] = frozenset()
    takes: Mapping[int, int] = field(default_factory=dict)  # nanoseconds by row
    free: bool = False  # the CPU takes no time at all: one launch for all
    instant: bool = False  # the GPU takes none

    def also(self, other: Change) -> Change:
        return Change(
            merged([*self.gone, *other.gone]),
            self.unblocked | other.unblocked,
            {**self.takes, **other.takes},
            self.free or other.free,
            self.instant or other.instant,
        )


class Replay:
    def __init__(self, view: View, waits: Rows, *, plain_step_us: float | None = None) -> None:
        self.view = view
        self._choose_steps()
        self._calls(waits)
        # What the profiler is charged, as little and as much as it may have cost.
        self.watch = self._slowed(watched.USUAL)
        self.cheapest, self.dearest = self._slowed(watched.CHEAPEST), self._slowed(watched.DEAREST)
        if plain_step_us is not None and (len(self._rows) or not len(view.gpu)):
            self.watch = self.cheapest = self.dearest = self._charge(plain_step_us * 1e3 * self.steps)

    def _choose_steps(self) -> None:
        steps = self.view.steps
        mine = self.view.calls[self.view.gpu_in_steps & (self.view.calls >= 0)]
        each = max(len(mine) // steps.count, 1)
        # The first step pays for the profiler's start.
        whole = steps.count - 1 if steps.count >= _ENOUGH else steps.count
        self.steps = max(min(whole, _MOST_CALLS // each), 1)
        first = (steps.count - self.steps + 1) // 2
        self.begin_ns = int(steps.begin[first])
        # A step before them is run first: theirs then begin with a GPU that has work, as they do in a long training.
        lead_ns, asked = int(steps.begin[max(first - 1, 0)]), self.view.trace.begin[mine]
        leads = ((asked >= lead_ns) & (asked < self.begin_ns)).any() and (asked >= self.begin_ns).any()
        self._lead_ns = lead_ns if leads else self.begin_ns
        self.end_ns = int(steps.end[first + self.steps - 1])
        self.asked_ns = min(self.end_ns, steps.asked_ns)

    def _calls(self, waits: Rows) -> None:
        trace, view = self.view.trace, self.view
        asked = (take(trace.begin, view.calls) >= self._lead_ns) & (take(trace.begin, view.calls) < self.asked_ns)
        at = np.flatnonzero(asked & (view.calls >= 0))
        waiting = waits[(trace.begin[waits] >= self._lead_ns) & (trace.begin[waits] < self.asked_ns)]
        rows = np.union1d(view.calls[at], waiting)
        rows = rows[np.argsort(trace.begin[rows], kind="stable")]
        begin, end = trace.begin[rows], view.end[rows]
        self._rows: Rows = rows
        self._blocks = np.isin(rows, waiting).tolist()
        self._started = self._by_call(at, rows)
        self._first = int(np.searchsorted(begin, self.begin_ns)) if self._lead_ns < self.begin_ns else 0
        before = np.maximum(np.append(self._lead_ns, np.maximum.accumulate(end)[:-1]), self._lead_ns)
        self._before, self._begin = before, begin
        self._host = np.maximum(begin - before, 0)
        done = self._done()
        # A wait lasts until the GPU is done; what it takes beyond that is the CPU's.
        cost = np.where(self._blocks, end - np.clip(done, begin, end), end - begin)
        launches = cost[~np.array(self._blocks, dtype=np.bool_)]
        usual = int(np.median(launches)) if len(launches) else 0
        blocked = ~np.array(self._blocks, dtype=np.bool_) & (cost > _BLOCKED * max(usual, 1_000))
        self._cost = np.where(blocked, usual, cost)
        self._written = view.watched(before, end)
        tail_from = int(end.max(initial=self.begin_ns))
        # After the last call the CPU still works; where the steps end with the GPU's work, none of that is known.
        ranges_end = self.end_ns if len(self.view.gpu) == 0 else min(self.end_ns, self._cpu_end())
        # With a step before them, what follows its last call stands for what follows theirs.
        self._tail = 0 if self._first else max(ranges_end - tail_from, 0)
        self._tail_from = tail_from

    def _cpu_end(self) -> int:
        """The end of what threads did in the steps analysis at."""
        ranges = self.view.ranges
        inside = (ranges.begin >= self.begin_ns) & (ranges.begin < self.end_ns) & (ranges.lane == self.view.main)
        return int(np.minimum(ranges.end[inside], self.end_ns).max(initial=self.begin_ns))

    def _by_call(self, at: Rows, rows: Rows) -> list[list[tuple[int, int, int]]]:
        """For each call what it started: lane, duration, row."""
        trace = self.view.trace
        found: list[list[tuple[int, int, int]]] = [[] for _ in range(len(rows))]
        order = np.argsort(rows, kind="stable")
        where = order[np.searchsorted(rows[order], self.view.calls[at])]
        gpu = self.view.gpu[at]
        for call, lane, took, row in zip(
            where.tolist(), trace.lane[gpu].tolist(), trace.duration[gpu].tolist(), gpu.tolist(), strict=True
        ):
            found[call].append((lane, took, row))
        return found

    def _done(self) -> Column:
        """When the GPU was done with all that was asked for up to each call."""
        ends = [max((int(self.view.end[row]) for *_, row in started), default=0) for started in self._started]
        return np.maximum.accumulate(np.array(ends, dtype=np.int64)) if ends else np.zeros(0, dtype=np.int64)

    @functools.cached_property
    def _pace(self) -> tuple[int, int]:
        """The GPU's pause between kernels already asked for, and the time from a launch to its kernel at rest."""
        trace, view = self.view.trace, self.view
        known = np.flatnonzero(view.calls >= 0)
        if len(known) < 2:
            return _PAUSE_NS, _LATENCY_NS
        rows = view.gpu[known]
        begin, asked = trace.begin[rows], trace.begin[view.calls[known]]
        free = np.append(0, np.maximum.accumulate(view.end[rows])[:-1])
        queued, resting = asked < free - 10 * _LATENCY_NS, asked > free
        pause = np.clip((begin - free)[queued], 0, None)
        latency = (begin - asked)[resting]
        return (
            int(np.median(pause)) if len(pause) > 20 else _PAUSE_NS,
            int(np.quantile(latency, 0.25)) if len(latency) > 20 else _LATENCY_NS,
        )

    def _slowed(self, part: float) -> ProfilerOverhead:
        """Rows charged a part of what they usually cost."""
        return ProfilerOverhead(watched.row_ns(self.view, part, self._host + self._cost, self._written))

    def _charge(self, wanted_ns: float) -> ProfilerOverhead:
        """What makes the replay as long as the steps are without the profiler.

        Rows cost something. Where the program takes too long unwatched for that, what no profiler slows makes up the
        rest; where it cannot, rows cost less than thought. Without a GPU all is one stretch of the CPU's.
        """
        if not len(self._rows):
            return ProfilerOverhead(scale=wanted_ns / max(self._run(Change(), ProfilerOverhead()), 1.0))
        cheapest = self._slowed(watched.CHEAPEST).row_ns

        def row_ns(low: float, high: float) -> ProfilerOverhead:
            return ProfilerOverhead(_sought(lambda ns: -self._run(Change(), ProfilerOverhead(ns)), -wanted_ns, low, high))

        if self._run(Change(), ProfilerOverhead(cheapest)) >= wanted_ns:
            return row_ns(cheapest, watched.MOST_NS)
        most = watched.MOST_LONGER
        longer = _sought(lambda times: self._run(Change(), ProfilerOverhead(cheapest, times)), wanted_ns, 1.0, most)
        return ProfilerOverhead(cheapest, longer) if longer < most else row_ns(0.0, cheapest)

    @functools.cached_property
    def step_ns(self) -> float:
        """A step as it is."""
        return self.step_with(Change())

    @functools.cached_property
    def watched_step_ns(self) -> float:
        """A step with the profiler, to be held against what was seen."""
        return self.step_with(Change(), ProfilerOverhead())

    @property
    def seen_step_ns(self) -> float:
        """A step as it was watched. What the GPU still had to do when they began is not of these steps."""
        view, span = self.view, self.end_ns - self.begin_ns
        earlier = view.gpu[take(view.trace.begin, view.calls) < self.begin_ns]
        left = max(int(view.end[earlier].max(initial=0)) - self.begin_ns, 0)
        ends_with_gpu = self.end_ns == view.steps.last_ns
        return (span - (left if ends_with_gpu else 0)) / self.steps

    def step_with(self, change: Change, watch: ProfilerOverhead | None = None) -> float:
        return self._run(change, watch or self.watch) / self.steps

    def work_ns(self, change: Change) -> float:
        """The GPU's work in a step, by its kernels' own times: no pauses between them."""
        gone = _covers(change.gone, self._begin).tolist()
        kept = [one for one, dropped in list(zip(self._started, gone, strict=True))[self._first :] if not dropped]
        return sum(change.takes.get(row, took) for started in kept for _, took, row in started) / self.steps

    def _run(self, change: Change, watch: ProfilerOverhead) -> float:
        host, cost = self._worked(change, watch)
        longer = (
            {row: round(took * watch.longer) for row, took in self._through_cpu.items()} if watch.longer > 1 else {}
        )
        takes_otherwise = {**longer, **change.takes}
        dropped = _covers(change.gone, self._begin).tolist()
        pause, latency = (0, 0) if change.instant else self._pace
        now, started = 0.0, list[float]()
        ready: dict[int, float] = {}
        done = led = 0.0
        for at, (idle, takes) in enumerate(zip(host, cost, strict=True)):
            if at == self._first:
                led = max(now, done)
            now += idle
            if dropped[at]:
                continue
            row = int(self._rows[at])
            blocks = self._blocks[at] and row not in change.unblocked and not change.free
            if blocks and not self._started[at]:
                now = max(now, done)
            asked = now
            if len(started) >= _QUEUE:
                asked = now = max(now, started[-_QUEUE])
            now += takes
            for lane, took, gpu_row in self._started[at]:
                begin = max(asked + (0 if change.free else latency), ready.get(lane, -pause) + pause)
                ready[lane] = begin + (0 if change.instant else takes_otherwise.get(gpu_row, took))
                done = max(done, ready[lane])
                started.append(begin)
            if blocks and self._started[at]:
                now = max(now, done + takes)
        return max(now + self._tail_time(change, watch), done) - led

    @functools.cached_property
    def _through_cpu(self) -> dict[int, int]:
        """Copies from and to pageable memory, which the CPU makes: nanoseconds by row."""
        rows = self.view.gpu[self.view.named(_PAGEABLE)[self.view.trace.name[self.view.gpu]]]
        return dict(zip(rows.tolist(), self.view.trace.duration[rows].tolist(), strict=True))

    def _worked(self, change: Change, watch: ProfilerOverhead) -> tuple[list[float], list[float]]:
        """The CPU's time before each call, and in it."""
        if change.free:
            nothing = [0.0] * len(self._rows)
            return nothing, nothing
        left = self._host - overlaps(change.gone, self._before, self._begin)
        share = np.divide(left, np.maximum(self._host, 1))
        spent = self._host + self._cost
        kept = watch.kept(spent, self._written) / np.maximum(spent, 1)
        return (self._host * kept * share).tolist(), (self._cost * kept).tolist()

    def _tail_time(self, change: Change, watch: ProfilerOverhead) -> float:
        if change.free or not self._tail:
            return 0.0
        begin, end = np.array([self._tail_from]), np.array([self._tail_from + self._tail])
        left = self._tail - int(overlaps(change.gone, begin, end)[0])
        return float(watch.kept(end - begin, self.view.watched(begin, end))[0]) * left / self._tail


def _sought(of: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Where a function that grows reaches what is wanted, or the end nearer to it."""
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if of(middle) < wanted else (low, middle)
    return high


def _covers(gone: Sequence[Interval], at: Column) -> Mask:
    if not gone:
        return np.zeros(len(at), dtype=np.bool_)
    begin, end = np.array(gone, dtype=np.int64).T
    where = np.searchsorted(begin, at, side="right") - 1
    return np.asarray((where >= 0) & (at < take(end, where)))


def overlaps(gone: Sequence[Interval], begin: Column, end: Column) -> Column:
    """How much of each stretch lies in the intervals."""
    if not gone:
        return np.zeros(len(begin), dtype=np.int64)
    starts, ends = np.array(gone, dtype=np.int64).T
    held = np.append(0, np.cumsum(ends - starts))

    def until(moment: Column) -> Column:
        at = np.searchsorted(starts, moment, side="right")
        over = np.where(at > 0, np.maximum(ends[(at - 1).clip(min=0)] - moment, 0), 0)
        return np.asarray(held[at] - over)

    return until(np.maximum(end, begin)) - until(begin)


def merged(intervals: Sequence[Interval]) -> list[Interval]:
    """Sorted, and those that touch as one."""
    found: list[Interval] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found
