"""What one call does besides the op: allocate, copy between host and GPU, draw random numbers, wait; its kernels.

Read from one profiled call, in the profiler's own trace format. A profiler slows what follows it in a
process: never count in one that is still to time.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

Found = dict[str, Any]

_CALL = "kernellab: the call"
_RANDOM = re.compile(
    r"aten::(rand|randn|randint|randperm|multinomial|poisson|binomial|native_dropout|_fused_dropout|_standard_gamma"
    r"|_sample_dirichlet|(random|normal|uniform|bernoulli|exponential|geometric|cauchy|log_normal)_?)(_like|_functional)?"
)
_RANDOM_KERNEL = re.compile(r".*(distribution_(elementwise|nullary)|fused_dropout)|triton_.*(rand|dropout|bernoulli)")
_ALLOCATE = re.compile(r"aten::(empty.*|new_empty.*|resize_)")
_RAW_ALLOCATE = re.compile(r"cudaMalloc(Async|Managed|Pitch|FromPoolAsync)?|cuMem(Alloc|Create).*")
_RAW_FREE = re.compile(r"cudaFree(Async)?|cuMem(Free|Release).*")
_WAIT = re.compile(r"cuda(Stream|Device|Event)Synchronize|cu(Stream|Ctx|Event)Synchronize")


def inside(call: Callable[[], Any], device: torch.device, calls: int = 3) -> Found:
    """Call it a few times, warm as it is, and say what the last call did.

    `host_us` is the call as its caller sees it, `device_us` what the GPU did for it. What was counted comes
    with its `share` of the time, and `of` which: on a GPU, of the host's or the GPU's, whichever is more.
    What does not apply on a device is absent. `enclosing` has the operators each kernel was launched in.
    """
    on_gpu = device.type == "cuda"
    trace, segments = _profiled(call, on_gpu, calls)
    host, gpu, memory, whole = _of_last_call(trace)
    share = _Shares(whole["dur"], host, gpu)
    allocated = [e["args"]["Bytes"] for e in memory if e["args"]["Bytes"] > 0]
    drawing = _outermost(host, _RANDOM)
    queued_by_ops = share.queued_by(drawing)
    drawn_unasked = [e for e in gpu if _RANDOM_KERNEL.match(e["name"]) and e not in queued_by_ops]
    found: Found = {
        "device": device.type,
        "host_us": whole["dur"],
        "allocations": {
            "count": len(allocated),
            "bytes": sum(allocated),
            **share.of(_outermost(host, _ALLOCATE)),
        },
        "random": {
            "count": len(drawing) + len(drawn_unasked),
            "ops": sorted({e["name"] for e in drawing + drawn_unasked}),
            **share.of(drawing, queued_by_ops + drawn_unasked),
        },
    }
    if on_gpu:
        malloc, waits = _outermost(host, _RAW_ALLOCATE), _outermost(host, _WAIT)
        found |= {
            "device_us": share.gpu_us,
            # The caching allocator's own count too: a profiler need not see every driver call.
            "raw_allocations": {"count": max(len(malloc), segments), **share.of(malloc)},
            "raw_frees": {"count": len(free := _outermost(host, _RAW_FREE)), **share.of(free)},
            "host_to_device": share.copies("Memcpy HtoD"),
            "device_to_host": share.copies("Memcpy DtoH"),
            "synchronisations": {"count": len(waits), **share.of(waits)},
            "kernels": [{"name": e["name"], "us": e["dur"], **_launch(e)} for e in gpu],
            "enclosing": _enclosing(host, gpu),
        }
    return found


# What Kineto says of a kernel's launch, by the names used here.
_LAUNCH = {
    "grid": "grid",
    "block": "block",
    "registers per thread": "registers",
    "shared memory": "shared_bytes",
    "blocks per SM": "blocks_per_sm",
    "warps per SM": "warps_per_sm",
    "est. achieved occupancy %": "occupancy_percent",
}


def _launch(event: Any) -> Found:
    args = event.get("args", {})
    return {ours: args[theirs] for theirs, ours in _LAUNCH.items() if theirs in args}


def _enclosing(host: list[Any], gpu: list[Any]) -> list[list[Any]]:
    """For each piece of GPU work the operators it was queued in, outermost first: each a name and which event it is."""
    ops = [(number, e) for number, e in enumerate(host) if e["cat"] == "cpu_op"]
    launches = {_correlation(e): e for e in host if e["cat"] != "cpu_op"}
    found = []
    for work in gpu:
        launch = launches.get(_correlation(work))
        found.append([[op["name"], number] for number, op in ops if launch is not None and _within(launch, op)])
    return found


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


def _profiled(call: Callable[[], Any], on_gpu: bool, calls: int) -> tuple[list[Any], int]:
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
        return json.loads(file.read_text())["traceEvents"], asked


def _segments() -> int:
    return int(torch.cuda.memory_stats().get("segment.all.allocated", 0))


def _of_last_call(trace: Iterable[Any]) -> tuple[list[Any], list[Any], list[Any], Any]:
    """Host events, GPU events and allocations of the last call, each in order, and the call itself."""
    events = sorted((e for e in trace if "ts" in e), key=lambda e: (e["ts"], -e.get("dur", 0)))
    whole = [e for e in events if e.get("cat") == "user_annotation" and e["name"] == _CALL][-1]
    during = [e for e in events if whole["ts"] <= e["ts"] <= whole["ts"] + whole["dur"]]
    host = [e for e in during if e.get("cat") in ("cpu_op", "cuda_runtime", "cuda_driver")]
    queued = {_correlation(e) for e in host} - {None}  # the GPU works when it gets to it
    gpu = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and _correlation(e) in queued]
    return host, gpu, [e for e in during if e["name"] == "[memory]"], whole


def _correlation(event: Any) -> Any:
    """What links a launch on the host with its work on the GPU; ops have none."""
    return event.get("args", {}).get("correlation")


def _outermost(events: Iterable[Any], named: re.Pattern[str]) -> list[Any]:
    """Events of the name that lie in no other one: `randn` draws by calling `normal_`, and is one op."""
    kept: list[Any] = []
    end: dict[Any, float] = {}
    for event in events:
        if named.fullmatch(event["name"]) and event["ts"] >= end.get(event["tid"], 0):
            kept.append(event)
            end[event["tid"]] = event["ts"] + event["dur"]
    return kept


class _Shares:
    """How much of the call's time events took, on the host and on the GPU."""

    def __init__(self, host_us: float, host: list[Any], gpu: list[Any]) -> None:
        self._host_us, self._host, self._gpu = host_us, host, gpu
        self.gpu_us = sum(e["dur"] for e in gpu)

    def of(self, host: list[Any], gpu: Sequence[Any] = ()) -> dict[str, Any]:
        on_host = min(sum(e["dur"] for e in host) / self._host_us, 1.0) if self._host_us else 0.0
        on_gpu = sum(e["dur"] for e in gpu) / self.gpu_us if self.gpu_us else 0.0
        return {"share": max(on_host, on_gpu), "of": "GPU" if on_gpu > on_host else "host"}

    def queued_by(self, ops: list[Any]) -> list[Any]:
        """GPU work of these ops. A launch carries the number of the op it was made in, and one of its own."""
        parts = [e for e in self._host if any(_within(e, op) for op in ops)]
        numbers = {e["args"].get("External id") for e in parts if e["cat"] == "cpu_op"} - {None, 0}
        launches = {_correlation(e) for e in parts} - {None}
        return [e for e in self._gpu if _correlation(e) in launches or e["args"].get("External id") in numbers]

    def copies(self, named: str) -> dict[str, Any]:
        copies = [e for e in self._gpu if e["name"].startswith(named)]
        links = {_correlation(e) for e in copies}
        size = sum(e["args"].get("bytes", 0) for e in copies)
        return {
            "count": len(copies),
            "bytes": size,
            **self.of([e for e in self._host if _correlation(e) in links], copies),
        }


def _within(event: Any, outer: Any) -> bool:
    return bool(event["tid"] == outer["tid"] and outer["ts"] <= event["ts"] <= outer["ts"] + outer["dur"])


# Words -------------------------------------------------------------------------------------------------


def _number(count: int, unit: str) -> str:
    plural = unit[:-1] + "ies" if unit.endswith("y") else unit + "s"
    return f"{count} {unit if count == 1 else plural}"


def _percent(share: float) -> str:
    return "less than 1 %" if share < 0.01 else f"{100 * share:.0f} %"
