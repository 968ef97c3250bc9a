"""`kl.benchmark`: times any callable in one call. To compare implementations of an op, use `klab bench`."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from kernellab.activity.compilation import CompilationEvent, CompilationLog
from kernellab.base.errors import UserError
from kernellab.base.json import JsonObject
from kernellab.base.user_code import explain
from kernellab.stats.intervals import quantile

if TYPE_CHECKING:
    import torch

_DONE = {"compile": "compiled", "triton": "compiled", "autotune": "tuned", "build": "built"}


class Benchmark(float):
    """The mean in milliseconds, as a float; `.times_ms` has every trial.

    Repeated calls find their data in cache where it fits: the number is cache-warm. `.inside` counts what a call does
    besides computing, and `.remarks` names what does not belong in a benchmark.
    """

    description: str
    timer: str
    times_ms: list[float]
    inside: JsonObject  # empty if nothing was counted
    remarks: list[str]
    cache = "warm"

    def __new__(
        cls,
        description: str,
        times_ms: list[float],
        timer: str,
        inside: JsonObject,
        remarks: list[str],
    ) -> Benchmark:
        benchmark = super().__new__(cls, statistics.fmean(times_ms))
        benchmark.description, benchmark.times_ms, benchmark.timer = description, times_ms, timer
        benchmark.inside, benchmark.remarks = inside, remarks
        return benchmark

    @property
    def mean_ms(self) -> float:
        return float(self)

    @property
    def median_ms(self) -> float:
        return statistics.median(self.times_ms)

    def quantile_ms(self, q: float) -> float:
        """The q-quantile of the trials, interpolated."""
        return quantile(self.times_ms, q)

    @property
    def quantiles_ms(self) -> tuple[float, float, float]:
        """The 0.5, 0.2 and 0.8 quantiles."""
        return self.quantile_ms(0.5), self.quantile_ms(0.2), self.quantile_ms(0.8)

    def __repr__(self) -> str:
        median, low, high = self.quantiles_ms
        summary = (
            f"{self.description}: {self.mean_ms:.4g} ms mean, {median:.4g} ms median ({low:.4g}–{high:.4g}), "
            f"{len(self.times_ms)} trials, {self.timer} timer, cache-warm"
        )
        return "; ".join([summary, *self.remarks])

    __str__ = __repr__


def benchmark(
    description: str,
    run: Callable[[], object],
    num_warmups: int = 1,
    num_trials: int = 3,
    *,
    timer: str = "host",
    count: bool = True,
) -> Benchmark:
    """Time `run()`: warm up, synchronise before and after each trial, return the mean in milliseconds.

    `timer="host"` is the time a caller waits; `timer="events"` is time on the GPU's stream. With `count`, one more
    call after the trials is profiled, to count what it does besides computing.
    """
    if os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes", "y"):
        raise UserError("TRITON_INTERPRET is set: interpreter time is not speed. Unset it to time")
    if timer not in ("host", "events"):
        raise UserError(f"no timer {timer!r}: use host or events")
    if num_trials < 1 or num_warmups < 0:
        raise UserError("num_trials must be at least 1 and num_warmups at least 0")
    import torch

    on_gpu = torch.cuda.is_available()
    if timer == "events" and not on_gpu:
        raise UserError("timer='events' needs a GPU: use timer='host'")
    synchronise: Callable[[], None] = torch.cuda.synchronize if on_gpu else (lambda: None)
    log = CompilationLog.installed()
    for _ in range(num_warmups):
        run()
    synchronise()
    time_once = _events_ms if timer == "events" else _host_ms
    mark = log.mark()
    times_ms = [time_once(run, synchronise) for _ in range(num_trials)]
    remarks = _describe_compiling(log.since(mark))
    inside: JsonObject = {}
    if count:
        inside, more = _count_activity(run, torch.device("cuda" if on_gpu else "cpu"))
        remarks += more
    return Benchmark(description, times_ms, timer, inside, remarks)


def _describe_compiling(events: Sequence[CompilationEvent]) -> list[str]:
    if not events:
        return []
    done = dict.fromkeys(f"{_DONE[event.kind]} {event.name}" for event in events if not event.nested)
    return [f"{', '.join(done)} during the trials: raise num_warmups"]


def _count_activity(run: Callable[[], object], device: torch.device) -> tuple[JsonObject, list[str]]:
    from kernellab.activity.call import profile_call, remarks_on

    try:
        profiled = profile_call(run, device, calls=1)
    except Exception as error:  # a profiler may be running already, or the call works only once: the times stay valid
        return {}, [f"what it does besides computing could not be counted: {explain(error)}"]
    inside = cast("JsonObject", dict(profiled.activity))
    if profiled.kernels is not None:
        inside["kernels"] = [cast("JsonObject", kernel) for kernel in profiled.kernels]
    remarks = remarks_on(profiled.activity)
    return inside, [f"inside the timed region: {'; '.join(remarks)}"] if remarks else []


def _host_ms(run: Callable[[], object], synchronise: Callable[[], None]) -> float:
    synchronise()
    start = time.perf_counter_ns()
    run()
    synchronise()
    return (time.perf_counter_ns() - start) / 1e6


def _events_ms(run: Callable[[], object], synchronise: Callable[[], None]) -> float:
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    synchronise()
    return float(start.elapsed_time(end))
