"""A model of a step that computes how long the step would take with something changed.

The CPU is one sequence of calls that launch GPU work or wait for it, with the measured time between them. Each stream
runs its work in order, each piece as long as measured. Without a wait the CPU runs ahead; without the CPU's work the
GPU sets the pace. Threads that launch in turn (autograd's and the one that called it) are one sequence.

A profiler slows the CPU with every event it writes. If the time of a step without the profiler is known, the overhead
per event is chosen so that the replay takes that time; otherwise a typical overhead is subtracted. So gains are those
of the program without the profiler.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kernellab.analysis import intervals
from kernellab.analysis.intervals import Interval
from kernellab.traces.blocking_calls import is_pageable_copy
from kernellab.traces.trace import Column, Rows
from kernellab.traceview import profiler_overhead
from kernellab.traceview.profiler_overhead import EventCounter, ProfilerOverhead
from kernellab.traceview.row_tree import take
from kernellab.traceview.view import View

_QUEUE_LENGTH = 1024  # launches CUDA queues before the next one blocks
_MIN_STEPS = 4  # with at least this many, the first is left out
_MAX_CALLS = 30_000  # of a long trace, steps with this many calls represent all
_BLOCKED = 20  # times the median launch: such a launch waited for room in the queue
_PAUSE_NS = 1_000  # between two queued kernels, if the trace does not show it
_LATENCY_NS = 4_000  # from a launch to its kernel, if the trace does not show it
_MIN_SAMPLES = 20  # to take the pause or the latency from the trace
_BISECTIONS = 24


@dataclass(frozen=True)
class Change:
    """What a replay changes. The default changes nothing."""

    removed: Sequence[Interval] = ()  # CPU time that is gone, with everything launched in it
    unblocked: frozenset[int] = frozenset()  # rows of calls that no longer block
    durations: Mapping[int, int] = field(default_factory=dict)  # changed durations of GPU rows, in nanoseconds
    free_cpu: bool = False  # the CPU takes no time: one launch for everything
    instant_gpu: bool = False  # the GPU takes no time

    def combine(self, other: Change) -> Change:
        return Change(
            intervals.merge([*self.removed, *other.removed]),
            self.unblocked | other.unblocked,
            {**self.durations, **other.durations},
            self.free_cpu or other.free_cpu,
            self.instant_gpu or other.instant_gpu,
        )


class _Work(NamedTuple):
    """A kernel, copy or fill that a call launched."""

    lane: int
    duration: int
    row: int


class Replay:
    """`waits` are the rows of blocking calls; `plain_step_us` is the time of a step without the profiler."""

    def __init__(self, view: View, waits: Rows, *, plain_step_us: float | None = None) -> None:
        self.view = view
        self._events = EventCounter(view.trace)
        self._choose_steps()
        self._model_calls(waits)
        self.overhead = self._typical_overhead(profiler_overhead.TYPICAL)
        self.least_overhead = self._typical_overhead(profiler_overhead.LOW)
        self.most_overhead = self._typical_overhead(profiler_overhead.HIGH)
        if plain_step_us is not None and (len(self._rows) or not len(view.gpu_rows)):
            fitted = self._fit_overhead(plain_step_us * 1e3 * self.steps)
            self.overhead = self.least_overhead = self.most_overhead = fitted

    def _choose_steps(self) -> None:
        steps = self.view.steps
        calls = self.view.gpu_calls[self.view.gpu_in_steps & (self.view.gpu_calls >= 0)]
        calls_per_step = max(len(calls) // steps.count, 1)
        # The first step includes the profiler's start.
        usable = steps.count - 1 if steps.count >= _MIN_STEPS else steps.count
        self.steps = max(min(usable, _MAX_CALLS // calls_per_step), 1)
        first = (steps.count - self.steps + 1) // 2
        self.begin_ns = int(steps.begin[first])
        # The step before them is replayed first, so that they begin with a busy GPU, as in a long training.
        lead_ns, called = int(steps.begin[max(first - 1, 0)]), self.view.trace.begin[calls]
        has_lead = ((called >= lead_ns) & (called < self.begin_ns)).any() and (called >= self.begin_ns).any()
        self._lead_ns = lead_ns if has_lead else self.begin_ns
        self.end_ns = int(steps.end[first + self.steps - 1])
        self.cpu_end_ns = min(self.end_ns, steps.cpu_end_ns)

    def _model_calls(self, waits: Rows) -> None:
        trace, view = self.view.trace, self.view
        called = take(trace.begin, view.gpu_calls)
        at = np.flatnonzero((called >= self._lead_ns) & (called < self.cpu_end_ns) & (view.gpu_calls >= 0))
        blocking = waits[(trace.begin[waits] >= self._lead_ns) & (trace.begin[waits] < self.cpu_end_ns)]
        rows = np.union1d(view.gpu_calls[at], blocking)
        rows = rows[np.argsort(trace.begin[rows], kind="stable")]
        begin, end = trace.begin[rows], view.end[rows]
        self._rows: Rows = rows
        blocks = np.isin(rows, blocking)
        self._blocks = blocks.tolist()
        self._launched = self._work_by_call(at, rows)
        self._first = int(np.searchsorted(begin, self.begin_ns)) if self._lead_ns < self.begin_ns else 0
        self._before = np.maximum(np.append(self._lead_ns, np.maximum.accumulate(end)[:-1]), self._lead_ns)
        self._begin = begin
        self._host_ns = np.maximum(begin - self._before, 0)
        # A blocking call lasts until the GPU is done; its time beyond that is CPU time.
        call_ns = np.where(blocks, end - np.clip(self._done_ns(), begin, end), end - begin)
        launches = call_ns[~blocks]
        median = int(np.median(launches)) if len(launches) else 0
        queue_was_full = ~blocks & (call_ns > _BLOCKED * max(median, 1_000))
        self._call_ns = np.where(queue_was_full, median, call_ns)
        self._event_count = self._events.between(self._before, end)
        self._tail_begin = int(end.max(initial=self.begin_ns))
        # The CPU still works after the last call. If the steps end with GPU work, ranges show how long.
        cpu_end = self.end_ns if len(self.view.gpu_rows) == 0 else min(self.end_ns, self._ranges_end())
        # If a step is replayed before them, the time after its last call represents the time after theirs.
        self._tail_ns = 0 if self._first else max(cpu_end - self._tail_begin, 0)

    def _ranges_end(self) -> int:
        """The end of the main thread's ranges in the replayed steps."""
        ranges = self.view.ranges
        inside = (ranges.begin >= self.begin_ns) & (ranges.begin < self.end_ns) & (ranges.lane == self.view.main_lane)
        return int(np.minimum(ranges.end[inside], self.end_ns).max(initial=self.begin_ns))

    def _work_by_call(self, at: Rows, rows: Rows) -> list[list[_Work]]:
        """For each call, the GPU work it launched."""
        trace = self.view.trace
        work: list[list[_Work]] = [[] for _ in range(len(rows))]
        order = np.argsort(rows, kind="stable")
        where = order[np.searchsorted(rows[order], self.view.gpu_calls[at])]
        gpu = self.view.gpu_rows[at]
        columns = (where, trace.lane[gpu], trace.duration[gpu], gpu)
        for call, lane, duration, row in zip(*(column.tolist() for column in columns), strict=True):
            work[call].append(_Work(lane, duration, row))
        return work

    def _done_ns(self) -> Column:
        """When the GPU had finished everything launched up to each call."""
        ends = [max((int(self.view.end[work.row]) for work in launched), default=0) for launched in self._launched]
        return np.maximum.accumulate(np.array(ends, dtype=np.int64)) if ends else np.zeros(0, dtype=np.int64)

    @functools.cached_property
    def _pause_and_latency(self) -> tuple[int, int]:
        """The GPU's pause between queued kernels, and the time from a launch to its kernel on an idle GPU."""
        trace, view = self.view.trace, self.view
        linked = np.flatnonzero(view.gpu_calls >= 0)
        if len(linked) < 2:
            return _PAUSE_NS, _LATENCY_NS
        rows = view.gpu_rows[linked]
        begin, called = trace.begin[rows], trace.begin[view.gpu_calls[linked]]
        free = np.append(0, np.maximum.accumulate(view.end[rows])[:-1])
        queued, idle = called < free - 10 * _LATENCY_NS, called > free
        pause = np.clip((begin - free)[queued], 0, None)
        latency = (begin - called)[idle]
        return (
            int(np.median(pause)) if len(pause) > _MIN_SAMPLES else _PAUSE_NS,
            int(np.quantile(latency, 0.25)) if len(latency) > _MIN_SAMPLES else _LATENCY_NS,
        )

    def _typical_overhead(self, level: float) -> ProfilerOverhead:
        measured = self._host_ns + self._call_ns
        return ProfilerOverhead(profiler_overhead.estimate_operator_ns(self.view, level, measured, self._event_count))

    def _fit_overhead(self, wanted_ns: float) -> ProfilerOverhead:
        """The overhead with which the replay takes as long as the steps do without the profiler.

        Events cost at least the low estimate. If the program is too slow without the profiler for that, the time
        that the profiler does not slow is stretched; if no plausible stretch suffices, events cost less than
        estimated. Without a GPU everything is one span of the CPU, and all times are scaled.
        """
        if not len(self._rows):
            return ProfilerOverhead(scale=wanted_ns / max(self._run(Change(), ProfilerOverhead()), 1.0))
        low = self.least_overhead.operator_ns

        def fit_operator_ns(least: float, most: float) -> ProfilerOverhead:
            def duration(operator_ns: float) -> float:
                return -self._run(Change(), ProfilerOverhead(operator_ns))

            return ProfilerOverhead(_bisect(duration, -wanted_ns, least, most))

        if self._run(Change(), ProfilerOverhead(low)) >= wanted_ns:
            return fit_operator_ns(low, profiler_overhead.MAX_OPERATOR_NS)
        most = profiler_overhead.MAX_STRETCH
        stretch = _bisect(lambda factor: self._run(Change(), ProfilerOverhead(low, factor)), wanted_ns, 1.0, most)
        return ProfilerOverhead(low, stretch) if stretch < most else fit_operator_ns(0.0, low)

    @functools.cached_property
    def step_ns(self) -> float:
        """A step of the program without the profiler."""
        return self.step_ns_with(Change())

    @functools.cached_property
    def profiled_step_ns(self) -> float:
        """A replayed step with the profiler, to compare with the measured one."""
        return self.step_ns_with(Change(), ProfilerOverhead())

    @property
    def measured_step_ns(self) -> float:
        """A step as measured with the profiler, without GPU work left over from earlier steps."""
        view, span = self.view, self.end_ns - self.begin_ns
        earlier = view.gpu_rows[take(view.trace.begin, view.gpu_calls) < self.begin_ns]
        left = max(int(view.end[earlier].max(initial=0)) - self.begin_ns, 0)
        ends_with_gpu = self.end_ns == view.steps.end_ns
        return (span - (left if ends_with_gpu else 0)) / self.steps

    def step_ns_with(self, change: Change, overhead: ProfilerOverhead | None = None) -> float:
        return self._run(change, overhead or self.overhead) / self.steps

    def gpu_work_ns(self, change: Change) -> float:
        """The sum of the kernels' own times in a step, without pauses between them."""
        removed = intervals.contain(change.removed, self._begin).tolist()
        kept = [work for work, gone in list(zip(self._launched, removed, strict=True))[self._first :] if not gone]
        return sum(change.durations.get(work.row, work.duration) for launched in kept for work in launched) / self.steps

    def _run(self, change: Change, overhead: ProfilerOverhead) -> float:
        """Nanoseconds that all replayed steps take."""
        host_ns, call_ns = self._cpu_times(change, overhead)
        stretched = {}
        if overhead.stretch > 1:
            stretched = {row: round(ns * overhead.stretch) for row, ns in self._pageable_copies.items()}
        durations = {**stretched, **change.durations}
        removed = intervals.contain(change.removed, self._begin).tolist()
        pause, latency = (0, 0) if change.instant_gpu else self._pause_and_latency
        now, started = 0.0, list[float]()
        stream_free: dict[int, float] = {}
        done = lead_end = 0.0
        for at, (before, takes) in enumerate(zip(host_ns, call_ns, strict=True)):
            if at == self._first:
                lead_end = max(now, done)
            now += before
            if removed[at]:
                continue
            launched = self._launched[at]
            blocks = self._blocks[at] and int(self._rows[at]) not in change.unblocked and not change.free_cpu
            if blocks and not launched:
                now = max(now, done)
            called = now
            if len(started) >= _QUEUE_LENGTH:
                called = now = max(now, started[-_QUEUE_LENGTH])
            now += takes
            for lane, duration, row in launched:
                begin = max(called + (0 if change.free_cpu else latency), stream_free.get(lane, -pause) + pause)
                stream_free[lane] = begin + (0 if change.instant_gpu else durations.get(row, duration))
                done = max(done, stream_free[lane])
                started.append(begin)
            if blocks and launched:
                now = max(now, done + takes)
        return max(now + self._tail_time(change, overhead), done) - lead_end

    @functools.cached_property
    def _pageable_copies(self) -> dict[int, int]:
        """Copies from and to pageable memory, which the CPU performs: nanoseconds by row."""
        rows = np.flatnonzero(is_pageable_copy(self.view.trace))
        return dict(zip(rows.tolist(), self.view.trace.duration[rows].tolist(), strict=True))

    def _cpu_times(self, change: Change, overhead: ProfilerOverhead) -> tuple[list[float], list[float]]:
        """The CPU's time before each call, and in it."""
        if change.free_cpu:
            nothing = [0.0] * len(self._rows)
            return nothing, nothing
        left = self._host_ns - intervals.overlap(change.removed, self._before, self._begin)
        kept = np.divide(left, np.maximum(self._host_ns, 1))
        measured = self._host_ns + self._call_ns
        own = overhead.program_time(measured, self._event_count) / np.maximum(measured, 1)
        return (self._host_ns * own * kept).tolist(), (self._call_ns * own).tolist()

    def _tail_time(self, change: Change, overhead: ProfilerOverhead) -> float:
        if change.free_cpu or not self._tail_ns:
            return 0.0
        begin, end = np.array([self._tail_begin]), np.array([self._tail_begin + self._tail_ns])
        left = self._tail_ns - int(intervals.overlap(change.removed, begin, end)[0])
        own = overhead.program_time(end - begin, self._events.between(begin, end))
        return float(own[0]) * left / self._tail_ns


def _bisect(function: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Where an increasing function reaches the wanted value, or the nearer end of the range."""
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < wanted else (low, middle)
    return high
