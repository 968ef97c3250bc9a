"""What one call does besides the op: allocate, copy between host and GPU, draw random numbers, wait; its kernels.

Read from the trace of one profiled call. A profiler slows what follows it in a process: never count in one that is
still to time.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from kernellab.traces import kineto
from kernellab.traces.blocking_calls import find_blocking_calls
from kernellab.traces.trace import ON_GPU, Kind, Rows, Trace

Found = dict[str, Any]

_CALL = "kernellab: the call"
# What a trace knows of a kernel's launch.
_LAUNCH = ("grid", "block", "registers", "shared_bytes", "blocks_per_sm", "warps_per_sm", "occupancy_percent")
_RANDOM = re.compile(
    r"aten::(rand|randn|randint|randperm|multinomial|poisson|binomial|native_dropout|_fused_dropout|_standard_gamma"
    r"|_sample_dirichlet|(random|normal|uniform|bernoulli|exponential|geometric|cauchy|log_normal)_?)(_like|_functional)?"
)
_RANDOM_KERNEL = re.compile(r".*(distribution_(elementwise|nullary)|fused_dropout)|triton_.*(rand|dropout|bernoulli)")
_ALLOCATE = re.compile(r"aten::(empty.*|new_empty.*|resize_)")
_RAW_ALLOCATE = re.compile(r"cudaMalloc(Async|Managed|Pitch|FromPoolAsync)?|cuMem(Alloc|Create).*")
_RAW_FREE = re.compile(r"cudaFree(Async)?|cuMem(Free|Release).*")


def inside(call: Callable[[], Any], device: torch.device, calls: int = 3) -> Found:
    """Call it a few times, warm as it is, and say what the last call did.

    `host_us` is the call as its caller sees it, `device_us` what the GPU did for it. What was counted comes
    with its `share` of the time, and `of` which: on a GPU, of the host's or the GPU's, whichever is more.
    What does not apply on a device is absent. `enclosing` has the operators each kernel was launched in.
    """
    on_gpu = device.type == "cuda"
    trace, segments = _profiled(call, on_gpu, calls)
    host, gpu, allocated, whole = _of_last_call(trace)
    share = _Shares(whole, host, gpu)
    drawing = _outermost(host, _RANDOM)
    queued_by_ops = share.queued_by(drawing)
    drawn_unasked = [e for e in gpu if _RANDOM_KERNEL.match(e.name) and e not in queued_by_ops]
    found: Found = {
        "device": device.type,
        "host_us": whole.us,
        "allocations": {
            "count": len(allocated),
            "bytes": sum(allocated),
            **share.of(_outermost(host, _ALLOCATE)),
        },
        "random": {
            "count": len(drawing) + len(drawn_unasked),
            "ops": sorted({e.name for e in drawing + drawn_unasked}),
            **share.of(drawing, queued_by_ops + drawn_unasked),
        },
    }
    if on_gpu:
        malloc, blocking = _outermost(host, _RAW_ALLOCATE), _not_nested(e for e in host if e.blocks)
        found |= {
            "device_us": _us(gpu),
            # The caching allocator's own count too: a profiler need not see every driver call.
            "raw_allocations": {"count": max(len(malloc), segments), **share.of(malloc)},
            "raw_frees": {"count": len(free := _outermost(host, _RAW_FREE)), **share.of(free)},
            "host_to_device": share.copies("Memcpy HtoD"),
            "device_to_host": share.copies("Memcpy DtoH"),
            "synchronisations": {"count": _count_waits(host, blocking), **share.of(blocking)},
            "kernels": [{"name": e.name, "us": e.us, **{k: e.more[k] for k in _LAUNCH if k in e.more}} for e in gpu],
            "enclosing": _enclosing(host, gpu),
        }
    return found


def _enclosing(host: Sequence[_Event], gpu: Sequence[_Event]) -> list[list[Any]]:
    """For each piece of GPU work the operators it was queued in, outermost first: each a name and which event it is."""
    ops = [(number, e) for number, e in enumerate(host) if e.kind == Kind.OPERATOR]
    launches = {e.link: e for e in host}
    return [[[op.name, number] for number, op in ops if _within(launches[work.link], op)] for work in gpu]


def sentences(found: Found) -> list[str]:
    """What of it a benchmark should not contain, in words; allocating a result is ordinary, and not among it."""
    said = []
    for what, count, unit in (
        ("draws random numbers", "random", "op"),
        ("copies to the GPU", "host_to_device", "copy"),
        ("allocates past torch's cache (cudaMalloc)", "raw_allocations", "call"),
        ("waits for the GPU", "synchronisations", "synchronisation"),
    ):
        counted = found.get(count)
        if counted and counted["count"]:
            whose = "" if found["device"] == "cpu" else f"{counted['of']}'s "
            said.append(f"{what}: {_number(counted['count'], unit)}, {_percent(counted['share'])} of the {whose}time")
    return said


# One profiled call -------------------------------------------------------------------------------------


def _profiled(call: Callable[[], Any], on_gpu: bool, calls: int) -> tuple[Trace, int]:
    """The trace, and how often the caching allocator had to ask CUDA for memory in the last call."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or the profiler announces itself on standard error
    from torch.profiler import ProfilerActivity, profile, record_function

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    synchronise: Callable[[], Any] = torch.cuda.synchronize if on_gpu else (lambda: None)
    segments = _segments if on_gpu else (lambda: 0)
    synchronise()
    with profile(activities=activities, profile_memory=True, acc_events=True) as profiler:
        with record_function("kernellab: warm-up"):  # the first of anything a profiler sees is slow
            torch.empty(1, device="cuda" if on_gpu else "cpu").fill_(0)
        synchronise()
        for _ in range(calls):
            before = segments()
            with record_function(_CALL):
                result = call()
            asked = segments() - before
            synchronise()
            del result
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        return kineto.from_document(json.loads(file.read_text())), asked


def _segments() -> int:
    return int(torch.cuda.memory_stats().get("segment.all.allocated", 0))


class _Event(NamedTuple):
    """A row of the trace, in nanoseconds."""

    name: str
    more: Mapping[str, Any]
    kind: int
    lane: int
    begin: int
    duration: int
    link: int  # what a launch on the host and its work on the GPU have in common; ops have none: 0
    blocks: bool  # a call that returns when the GPU is done

    @property
    def us(self) -> float:
        return self.duration / 1000


def _us(events: Iterable[_Event]) -> float:
    return sum(e.duration for e in events) / 1000


def _of_last_call(trace: Trace) -> tuple[list[_Event], list[_Event], list[int], _Event]:
    """Host events and GPU events of the last call and the bytes it allocated, each in order, and the call itself."""
    whole = [e for e in _events(trace, trace.rows(Kind.RANGE)) if e.name == _CALL][-1]
    host = [e for e in _events(trace, trace.rows(Kind.OPERATOR, Kind.CALL)) if _during(e.begin, whole)]
    queued = {e.link for e in host} - {0}  # the GPU works when it gets to it
    gpu = [e for e in _events(trace, trace.rows(*ON_GPU)) if e.link in queued]
    moved = zip(trace.memory.at.tolist(), trace.memory.bytes.tolist(), strict=True)
    return host, gpu, [size for at, size in moved if size > 0 and _during(at, whole)], whole


def _events(trace: Trace, rows: Rows) -> list[_Event]:
    """In the order of time, whatever lane they lie in; outer ones first."""
    rows = rows[np.lexsort((-trace.duration[rows], trace.begin[rows]))]
    blocks = find_blocking_calls(trace)
    columns = (trace.name, trace.detail, trace.kind, trace.lane, trace.begin, trace.duration, trace.link, blocks)
    return [
        _Event(trace.names[name], trace.details[detail], *numbers)
        for name, detail, *numbers in zip(*(column[rows].tolist() for column in columns), strict=True)
    ]


def _outermost(events: Iterable[_Event], named: re.Pattern[str]) -> list[_Event]:
    """Events of the name that lie in no other one: `randn` draws by calling `normal_`, and is one op."""
    return _not_nested(e for e in events if named.fullmatch(e.name))


def _count_waits(host: Sequence[_Event], blocking: Sequence[_Event]) -> int:
    """Blocking calls of one operator are one wait: `.item()` copies to pageable memory, then synchronises."""
    ops = [e for e in host if e.kind == Kind.OPERATOR]
    innermost = [[op for op in ops if _within(call, op)][-1:] for call in blocking]
    return len({id(around[0]) for around in innermost if around}) + sum(not around for around in innermost)


def _not_nested(events: Iterable[_Event]) -> list[_Event]:
    """Events that lie in no other one of them; they come in order of time."""
    kept: list[_Event] = []
    end: dict[int, int] = {}
    for event in events:
        if event.begin >= end.get(event.lane, 0):
            kept.append(event)
            end[event.lane] = event.begin + event.duration
    return kept


class _Shares:
    """How much of the call's time events took, on the host and on the GPU."""

    def __init__(self, whole: _Event, host: Sequence[_Event], gpu: Sequence[_Event]) -> None:
        self._host_us, self._gpu_us = whole.us, _us(gpu)
        self._host, self._gpu = host, gpu

    def of(self, host: Sequence[_Event], gpu: Sequence[_Event] = ()) -> dict[str, Any]:
        on_host = min(_us(host) / self._host_us, 1.0) if self._host_us else 0.0
        on_gpu = _us(gpu) / self._gpu_us if self._gpu_us else 0.0
        return {"share": max(on_host, on_gpu), "of": "GPU" if on_gpu > on_host else "host"}

    def queued_by(self, ops: Sequence[_Event]) -> list[_Event]:
        """GPU work of these ops."""
        launches = {e.link for e in self._host if any(_within(e, op) for op in ops)}
        return [e for e in self._gpu if e.link in launches]

    def copies(self, named: str) -> dict[str, Any]:
        copies = [e for e in self._gpu if e.name.startswith(named)]
        links = {e.link for e in copies}
        size = sum(e.more.get("bytes", 0) for e in copies)
        return {"count": len(copies), "bytes": size, **self.of([e for e in self._host if e.link in links], copies)}


def _within(event: _Event, outer: _Event) -> bool:
    return event.lane == outer.lane and _during(event.begin, outer)


def _during(at: int, event: _Event) -> bool:
    return event.begin <= at <= event.begin + event.duration


# Words -------------------------------------------------------------------------------------------------


def _number(count: int, unit: str) -> str:
    plural = unit[:-1] + "ies" if unit.endswith("y") else unit + "s"
    return f"{count} {unit if count == 1 else plural}"


def _percent(share: float) -> str:
    return "less than 1 %" if share < 0.01 else f"{100 * share:.0f} %"
