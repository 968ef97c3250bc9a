"""What one call does besides the op: allocate, copy between host and GPU, draw random numbers, wait; and its kernels.

Read from the trace of one profiled call. A profiler slows everything after it: never use this in a process
that will time something later.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch

from kernellab.activity.documents import ActivityCount, CallActivity, KernelLaunch
from kernellab.base.json import JsonValue
from kernellab.base.text import share_text
from kernellab.traces import kineto
from kernellab.traces.blocking_calls import find_blocking_calls
from kernellab.traces.trace import ON_GPU, Kind, Rows, Trace

Enclosing = list[tuple[str, int]]  # the operators a kernel was launched in, outermost first: name and number of each


@dataclass(frozen=True)
class ProfiledCall:
    """What one call did, and on a GPU the kernels it launched with the operators around each."""

    activity: CallActivity
    kernels: list[KernelLaunch] | None = None
    enclosing: list[Enclosing] | None = None


_CALL = "kernellab: the call"
# What a trace holds about a kernel's launch.
_LAUNCH = ("grid", "block", "registers", "shared_bytes", "blocks_per_sm", "warps_per_sm", "occupancy_percent")
_RANDOM = re.compile(
    r"aten::(rand|randn|randint|randperm|multinomial|poisson|binomial|native_dropout|_fused_dropout|_standard_gamma"
    r"|_sample_dirichlet|(random|normal|uniform|bernoulli|exponential|geometric|cauchy|log_normal)_?)(_like|_functional)?"
)
_RANDOM_KERNEL = re.compile(r".*(distribution_(elementwise|nullary)|fused_dropout)|triton_.*(rand|dropout|bernoulli)")
_ALLOCATE = re.compile(r"aten::(empty.*|new_empty.*|resize_)")
_RAW_ALLOCATE = re.compile(r"cudaMalloc(Async|Managed|Pitch|FromPoolAsync)?|cuMem(Alloc|Create).*")
_RAW_FREE = re.compile(r"cudaFree(Async)?|cuMem(Free|Release).*")


def profile_call(call: Callable[[], object], device: torch.device, calls: int = 3) -> ProfiledCall:
    """Profile a few calls that are already warmed up, and count what the last call did."""
    on_gpu = device.type == "cuda"
    trace, segments = _profile(call, on_gpu, calls)
    host, gpu, allocated, whole = _events_of_last_call(trace)
    shares = _Shares(whole, host, gpu)
    drawing = _outermost(host, _RANDOM)
    queued_by_ops = shares.queued_by(drawing)
    random_kernels = [e for e in gpu if _RANDOM_KERNEL.match(e.name) and e not in queued_by_ops]
    allocations = shares.count(len(allocated), _outermost(host, _ALLOCATE))
    allocations["bytes"] = sum(allocated)
    random = shares.count(len(drawing) + len(random_kernels), drawing, queued_by_ops + random_kernels)
    random["ops"] = sorted({e.name for e in drawing + random_kernels})
    activity: CallActivity = {
        "device": device.type,
        "host_us": whole.us,
        "allocations": allocations,
        "random": random,
    }
    if not on_gpu:
        return ProfiledCall(activity)
    malloc, free = (_outermost(host, names) for names in (_RAW_ALLOCATE, _RAW_FREE))
    blocking = _not_nested(e for e in host if e.blocks)
    activity["device_us"] = _us(gpu)
    # Use the caching allocator's count too: a profiler may miss driver calls.
    activity["raw_allocations"] = shares.count(max(len(malloc), segments), malloc)
    activity["raw_frees"] = shares.count(len(free), free)
    activity["host_to_device"] = shares.copies("Memcpy HtoD")
    activity["device_to_host"] = shares.copies("Memcpy DtoH")
    activity["synchronisations"] = shares.count(_count_waits(host, blocking), blocking)
    return ProfiledCall(activity, [_kernel(e) for e in gpu], _enclosing(host, gpu))


def _kernel(event: _Event) -> KernelLaunch:
    launch = {k: event.details[k] for k in _LAUNCH if k in event.details}
    return cast("KernelLaunch", {"name": event.name, "us": event.us, **launch})


def _enclosing(host: Sequence[_Event], gpu: Sequence[_Event]) -> list[Enclosing]:
    ops = [(number, e) for number, e in enumerate(host) if e.kind == Kind.OPERATOR]
    launches = {e.link: e for e in host}
    return [[(op.name, number) for number, op in ops if _within(launches[work.link], op)] for work in gpu]


def remarks_on(activity: CallActivity) -> list[str]:
    """Remarks on activity that a benchmark should not contain. Allocating the result is normal and not reported."""
    counts = (
        ("draws random numbers", activity.get("random"), "op"),
        ("copies to the GPU", activity.get("host_to_device"), "copy"),
        ("allocates past torch's cache (cudaMalloc)", activity.get("raw_allocations"), "call"),
        ("waits for the GPU", activity.get("synchronisations"), "synchronisation"),
    )
    remarks = []
    for action, counted, unit in counts:
        if counted and counted["count"]:
            owner = "" if activity["device"] == "cpu" else f"{counted['of']}'s "
            share = f"{share_text(counted['share'])} of the {owner}time"
            remarks.append(f"{action}: {_number(counted['count'], unit)}, {share}")
    return remarks


# One profiled call -------------------------------------------------------------------------------------


def _profile(call: Callable[[], object], on_gpu: bool, calls: int) -> tuple[Trace, int]:
    """The trace, and how often the caching allocator had to request memory from CUDA in the last call."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # otherwise the profiler writes to standard error
    from torch.autograd.profiler import profile, record_function  # torch.profiler imports Inductor: seconds

    synchronise: Callable[[], None] = torch.cuda.synchronize if on_gpu else (lambda: None)
    segments = _segments if on_gpu else (lambda: 0)
    synchronise()
    device = "cuda" if on_gpu else None
    with profile(use_kineto=True, use_device=device, profile_memory=True, acc_events=True) as profiler:
        with record_function("kernellab: warm-up"):  # the first event of each kind is slow in a profiler
            torch.empty(1, device="cuda" if on_gpu else "cpu").fill_(0)
        synchronise()
        for _ in range(calls):
            before = segments()
            with record_function(_CALL):
                result = call()
            requested = segments() - before
            synchronise()
            del result
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        return kineto.from_document(json.loads(file.read_text())), requested


def _segments() -> int:
    return int(torch.cuda.memory_stats().get("segment.all.allocated", 0))


class _Event(NamedTuple):
    """A row of the trace, in nanoseconds."""

    name: str
    details: Mapping[str, JsonValue]
    kind: int
    lane: int
    begin: int
    duration: int
    link: int  # shared by a launch on the host and its work on the GPU; 0 for operators, which have none
    blocks: bool  # a call that returns when the GPU is done

    @property
    def us(self) -> float:
        return self.duration / 1000


def _us(events: Iterable[_Event]) -> float:
    return sum(e.duration for e in events) / 1000


def _events_of_last_call(trace: Trace) -> tuple[list[_Event], list[_Event], list[int], _Event]:
    """Host events, GPU events and bytes allocated in the last call, each in order, and the call itself."""
    whole = [e for e in _events(trace, trace.rows(Kind.RANGE)) if e.name == _CALL][-1]
    host = [e for e in _events(trace, trace.rows(Kind.OPERATOR, Kind.CALL)) if _during(e.begin, whole)]
    queued = {e.link for e in host} - {0}  # the GPU may do the work after the call has returned
    gpu = [e for e in _events(trace, trace.rows(*ON_GPU)) if e.link in queued]
    changes = zip(trace.memory.at.tolist(), trace.memory.bytes.tolist(), strict=True)
    return host, gpu, [size for at, size in changes if size > 0 and _during(at, whole)], whole


def _events(trace: Trace, rows: Rows) -> list[_Event]:
    """The rows as events in order of time, over all lanes; outer events first."""
    rows = rows[np.lexsort((-trace.duration[rows], trace.begin[rows]))]
    blocks = find_blocking_calls(trace)
    columns = (trace.name, trace.detail, trace.kind, trace.lane, trace.begin, trace.duration, trace.link, blocks)
    return [
        _Event(trace.names[name], trace.details[detail], *numbers)
        for name, detail, *numbers in zip(*(column[rows].tolist() for column in columns), strict=True)
    ]


def _outermost(events: Iterable[_Event], names: re.Pattern[str]) -> list[_Event]:
    """Events of these names that are not inside another such event: `randn` calls `normal_` and counts once."""
    return _not_nested(event for event in events if names.fullmatch(event.name))


def _not_nested(events: Iterable[_Event]) -> list[_Event]:
    """The events that are not inside another one. They must be in order of time."""
    outermost: list[_Event] = []
    end: dict[int, int] = {}
    for event in events:
        if event.begin >= end.get(event.lane, 0):
            outermost.append(event)
            end[event.lane] = event.begin + event.duration
    return outermost


def _count_waits(host: Sequence[_Event], blocking: Sequence[_Event]) -> int:
    """Blocking calls of one operator count as one wait: `.item()` copies to pageable memory, then synchronises."""
    ops = [e for e in host if e.kind == Kind.OPERATOR]
    innermost = [[op for op in ops if _within(call, op)][-1:] for call in blocking]
    return len({id(levels[0]) for levels in innermost if levels}) + sum(not levels for levels in innermost)


class _Shares:
    """Shares of a call's time on the host and on the GPU."""

    def __init__(self, whole: _Event, host: Sequence[_Event], gpu: Sequence[_Event]) -> None:
        self._host_us, self._gpu_us = whole.us, _us(gpu)
        self._host, self._gpu = host, gpu

    def count(self, count: int, host: Sequence[_Event], gpu: Sequence[_Event] = ()) -> ActivityCount:
        """A count together with the share of these events in the time."""
        on_host = min(_us(host) / self._host_us, 1.0) if self._host_us else 0.0
        on_gpu = _us(gpu) / self._gpu_us if self._gpu_us else 0.0
        return {"count": count, "share": max(on_host, on_gpu), "of": "GPU" if on_gpu > on_host else "host"}

    def queued_by(self, ops: Sequence[_Event]) -> list[_Event]:
        """The GPU work of these operators."""
        launches = {e.link for e in self._host if any(_within(e, op) for op in ops)}
        return [e for e in self._gpu if e.link in launches]

    def copies(self, prefix: str) -> ActivityCount:
        copies = [e for e in self._gpu if e.name.startswith(prefix)]
        links = {e.link for e in copies}
        sizes = (e.details.get("bytes", 0) for e in copies)
        counted = self.count(len(copies), [e for e in self._host if e.link in links], copies)
        counted["bytes"] = sum(int(size) for size in sizes if isinstance(size, (int, float)))
        return counted


def _within(event: _Event, outer: _Event) -> bool:
    return event.lane == outer.lane and _during(event.begin, outer)


def _during(at: int, event: _Event) -> bool:
    return event.begin <= at <= event.begin + event.duration


def _number(count: int, unit: str) -> str:
    plural = unit[:-1] + "ies" if unit.endswith("y") else unit + "s"
    return f"{count} {unit if count == 1 else plural}"
