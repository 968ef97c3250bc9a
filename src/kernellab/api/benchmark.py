"""`kl.benchmark`: time any callable in one call. For comparing ways of an op, `klab bench` says much more."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernellab.activity.compilation import Event, Watch
from kernellab.base.errors import UserError
from kernellab.base.user_code import explain
from kernellab.stats.intervals import quantile

if TYPE_CHECKING:
    import torch

_DID = {"compile": "compiled", "triton": "compiled", "autotune": "tuned", "build": "built"}


class Benchmark(float):
    """Mean milliseconds, reading as a float; `.times_ms` has every trial.

    Repeated calls find their data in cache where it fits: the number is cache-warm, and says so. `.inside`
    counts what a call does besides computing, `.remarks` says what of it does not belong in a benchmark.
    """

    description: str
    timer: str
    times_ms: list[float]
    inside: dict[str, Any]
    remarks: list[str]
    cache = "warm"

    def __new__(
        cls, description: str, times_ms: list[float], timer: str, inside: dict[str, Any], remarks: list[str]
    ) -> Benchmark:
        made = super().__new__(cls, statistics.fmean(times_ms))
        made.description, made.times_ms, made.timer = description, times_ms, timer
        made.inside, made.remarks = inside, remarks
        return made

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
        said = (
            f"{self.description}: {self.mean_ms:.4g} ms mean, {median:.4g} ms median ({low:.4g}–{high:.4g}), "
            f"{len(self.times_ms)} trials, {self.timer} timer, cache-warm"
        )
        return "; ".join([said, *self.remarks])

    __str__ = __repr__


def benchmark(
    description: str,
    run: Callable[[], Any],
    num_warmups: int = 1,
    num_trials: int = 3,
    *,
    timer: str = "host",
    count: bool = True,
) -> Benchmark:
    """Time `run()`: warm up, synchronise before and after each trial, return the mean in milliseconds.

    `timer="host"` is what a caller waits for; `timer="events"` is time on the GPU's stream. With `count`, one
    more call after the trials is profiled, to say what it does besides computing.
    """
    if os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes", "y"):
        raise UserError("TRITON_INTERPRET is set: interpreter time is not speed. Unset it to time")
    if timer not in ("host", "events"):
        raise UserError(f"no timer {timer!r}: host or events")
    if num_trials < 1 or num_warmups < 0:
        raise UserError("num_trials must be at least 1 and num_warmups at least 0")
    import torch

    on_gpu = torch.cuda.is_available()
    if timer == "events" and not on_gpu:
        raise UserError("timer='events' needs a GPU: use timer='host'")
    synchronise: Callable[[], None] = torch.cuda.synchronize if on_gpu else (lambda: None)
    watch = Watch.installed()
    for _ in range(num_warmups):
        run()
    synchronise()
    time_once = _events_ms if timer == "events" else _host_ms
    mark = watch.mark()
    times_ms = [time_once(run, synchronise) for _ in range(num_trials)]
    remarks = _compiling(watch.since(mark))
    inside: dict[str, Any] = {}
    if count:
        inside, more = _count(run, torch.device("cuda" if on_gpu else "cpu"))
        remarks += more
    return Benchmark(description, times_ms, timer, inside, remarks)


def _compiling(events: list[Event]) -> list[str]:
    if not events:
        return []
    done = dict.fromkeys(f"{_DID[event.kind]} {event.name}" for event in events if not event.nested)
    return [f"{', '.join(done)} during the trials: raise num_warmups"]


def _count(run: Callable[[], Any], device: torch.device) -> tuple[dict[str, Any], list[str]]:
    from kernellab.activity.call import inside, sentences

    try:
        found = inside(run, device, calls=1)
    except Exception as error:  # the trials stand: a profiler may be running already, or the call be one of a kind
        return {}, [f"what it does besides could not be counted: {explain(error)}"]
    found.pop("enclosing", None)
    said = sentences(found)
    return found, [f"inside the timed region: {'; '.join(said)}"] if said else []


def _host_ms(run: Callable[[], Any], synchronise: Callable[[], None]) -> float:
    synchronise()
    start = time.perf_counter_ns()
    run()
    synchronise()
    return (time.perf_counter_ns() - start) / 1e6


def _events_ms(run: Callable[[], Any], synchronise: Callable[[], None]) -> float:
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    synchronise()
    return float(start.elapsed_time(end))
