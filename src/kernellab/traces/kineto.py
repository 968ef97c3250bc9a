"""PyTorch's profiler: Kineto's Chrome JSON, read into a trace.

A file is read as it is, whoever wrote it: an event that makes no sense is left out and counted, never an error.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError
from kernellab.base.text import shown
from kernellab.traces.chrome_events import Events, NotEvents
from kernellab.traces.row_details import showable, sound
from kernellab.traces.text_chunks import pieces
from kernellab.traces.trace import Builder, Kind, Lane, Trace

_KINDS = {
    "cpu_op": Kind.OPERATOR,
    "user_annotation": Kind.RANGE,
    "python_function": Kind.PYTHON,
    "cuda_runtime": Kind.CALL,
    "cuda_driver": Kind.CALL,
    "gpu_user_annotation": Kind.GPU_RANGE,
    "cuda_sync": Kind.WAIT,
    "kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.COPY,
    "gpu_memset": Kind.FILL,
}
_STREAMS = {Kind.GPU_RANGE, Kind.WAIT, Kind.KERNEL, Kind.COPY, Kind.FILL}
_MODULE = "nn.Module: "

# What is kept of an event beside its columns, by the names used here.
_COLLECTIVE = {
    "Collective name": "collective",
    "In msg nelems": "elements",
    "Group size": "group_size",
    "dtype": "dtype",
}
_KEPT: dict[Kind, dict[str, str]] = {
    Kind.OPERATOR: {
        "Input Dims": "shapes",
        "Input type": "types",
        "Concrete Inputs": "values",
        "Call stack": "stack",
        **_COLLECTIVE,
    },
    Kind.KERNEL: {
        "grid": "grid",
        "block": "block",
        "registers per thread": "registers",
        "shared memory": "shared_bytes",
        "blocks per SM": "blocks_per_sm",
        "warps per SM": "warps_per_sm",
        "est. achieved occupancy %": "occupancy_percent",
        **_COLLECTIVE,
    },
    Kind.COPY: {"bytes": "bytes"},
    Kind.FILL: {"bytes": "bytes"},
}
_LONGEST_DETAIL = 1 << 16  # bytes
_MOST_NAMED = 20_000  # threads
_LATEST_NS = 4 * 10**18
_INT64 = 2**63


def read(path: Path) -> Trace:
    notes: list[str] = []
    events = Events(pieces(path, notes))
    rows = _Rows()
    try:
        for event in events:
            rows.add(event)
            if rows.builder.full:
                notes.append(f"Only the first {len(rows.builder):,} events are read.")
                break
    except NotEvents as error:
        raise UserError(" ".join([f"{path} {error}.", *notes])) from None
    notes += events.notes
    rows.builder.whole = not notes
    if not len(rows.builder) and notes:
        raise UserError(f"Nothing can be read from {path}: {' '.join(notes)}")
    return rows.trace(events.top, notes)


def table(document: Mapping[str, Any]) -> Trace:
    """Of a small file known to be whole, its JSON read at once: that takes half as long as event by event."""
    rows = _Rows()
    for event in document["traceEvents"]:
        rows.add(event)
    return rows.trace({key: value for key, value in document.items() if key != "traceEvents"}, [])


class _Rows:
    """Events into rows."""

    def __init__(self) -> None:
        self.builder = Builder("kineto")
        self._lanes: dict[tuple[Any, Any, bool], int] = {}
        self._details: dict[bytes, int] = {}
        self._processes: dict[Any, str] = {}
        self._threads: dict[tuple[Any, Any], str] = {}

    def add(self, event: Any) -> None:
        try:
            phase = event["ph"]
            if phase == "X":
                self._add(event)
            elif phase == "i":
                if event.get("name") == "[memory]":
                    self._allocate(event)
            elif phase == "M":
                self._name(event)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
            self.builder.missed["an event whose fields are not what they should be"] += 1

    def _add(self, event: Mapping[str, Any]) -> None:
        category = event.get("cat")
        kind = _KINDS.get(category)  # type: ignore[arg-type]
        if kind is None:
            if category == "Trace":  # the profiler itself, from start to stop
                return
            kind = Kind.OTHER
        name: str = event["name"]
        if kind is Kind.PYTHON and name.startswith(_MODULE):
            kind, name = Kind.MODULE, name[len(_MODULE) :]
        begin, duration = _nanoseconds(event["ts"]), _nanoseconds(event.get("dur", 0))
        if not 0 <= begin < _LATEST_NS or duration > _LATEST_NS:
            self.builder.missed["an event at a time that cannot be"] += 1
            return
        if duration < 0:
            self.builder.missed["the length of an event that ends before it begins"] += 1
            duration = 0
        args = event.get("args")
        link = sequence = detail = 0
        if args:
            link = args.get("correlation") or 0
            if (number := args.get("Sequence number")) is not None:
                sequence = number + 1
            if not (-_INT64 < link < _INT64 and -_INT64 < sequence < _INT64):
                link = sequence = 0
            if kind in _KEPT:
                detail = self._detail(args, _KEPT[kind])
        else:
            args = {}
        self.builder.add(
            kind,
            self.builder.name(name),
            self._lane(event, args, kind in _STREAMS),
            begin,
            duration,
            link=int(link),
            sequence=int(sequence),
            detail=detail,
        )

    def _lane(self, event: Mapping[str, Any], args: Mapping[str, Any], on_gpu: bool) -> int:
        process, thread = event.get("pid"), event.get("tid")
        number = self._lanes.get((process, thread, on_gpu))
        if number is not None:
            return number
        if self.builder.lanes_full or _is_long(process) or _is_long(thread):
            raise ValueError
        if on_gpu:
            device, stream = int(args.get("device", process)), int(args.get("stream", thread))
            if not -_INT64 < device < _INT64:
                raise ValueError
            lane = Lane(f"GPU {device}", f"stream {stream}", device, stream)
        else:
            lane = Lane(_short(process), _short(thread))
        number = self._lanes[process, thread, on_gpu] = self.builder.lane(lane)
        return number

    def _detail(self, args: Mapping[str, Any], names: Mapping[str, str]) -> int:
        kept = {names[key]: value for key, value in args.items() if key in names and value not in (None, "", [])}
        if not kept:
            return 0
        key = marshal.dumps(kept, 2)  # the fastest text of it; from version 3 on it differs for equal values
        number = self._details.get(key)
        if number is None:
            if len(key) > _LONGEST_DETAIL:
                self.builder.missed["an event's details, being very long"] += 1
                return 0
            known = sound(kept)
            if len(known) < len(kept):
                self.builder.missed["a detail that is not what it should be"] += 1
            number = self.builder.detail(json.dumps(known), known) if known else 0
            if number:
                self._details[key] = number
        return number

    def _allocate(self, event: Mapping[str, Any]) -> None:
        args = event["args"]
        at = _nanoseconds(event["ts"])
        device = args["Device Id"] if args.get("Device Type") else -1
        numbers = (at, args["Bytes"], args.get("Total Allocated", 0), device, args.get("Addr", 0))
        if not all(isinstance(n, int) and -_INT64 < n < _INT64 for n in numbers) or not 0 <= at < _LATEST_NS:
            raise ValueError
        self.builder.allocate(*numbers, self._lane(event, args, False))

    def _name(self, event: Mapping[str, Any]) -> None:
        what, process, thread = event.get("name"), event.get("pid"), event.get("tid")
        name = event["args"].get("name")
        if (
            not name
            or _is_long(process)
            or _is_long(thread)
            or len(self._processes) + len(self._threads) >= _MOST_NAMED
        ):
            return
        if what == "process_name":
            self._processes[process] = _short(name)
        elif what == "thread_name":
            self._threads[process, thread] = _short(name)

    def trace(self, top: dict[str, Any], notes: list[str]) -> Trace:
        builder = self.builder
        for (process, thread, on_gpu), number in self._lanes.items():
            if on_gpu:
                continue
            own, threads = self._processes.get(process), self._threads.get((process, thread))
            lane = Lane(_with_id(own, process), _with_id(threads, thread))
            # Of no process: what the profiler itself took.
            builder.rename(number, Lane("profiler", "overhead") if process == -1 else lane)
        zero = top.get("baseTimeNanoseconds", 0)
        builder.zero_ns = zero if isinstance(zero, int) and 0 <= zero < _INT64 else 0
        builder.about = _about(top)
        builder.notes = notes
        if not len(builder):
            builder.notes.append("The trace holds no events.")
        return builder.trace()


def _about(top: dict[str, Any]) -> dict[str, Any]:
    """What the file says of itself, and by names that do not depend on who wrote it: `gpus`, `rank`, `world_size`."""
    about = {key: showable(value) for key, value in top.items()}
    devices = about.get("deviceProperties")
    about["gpus"] = [
        {
            "index": device.get("id"),
            "name": device.get("name"),
            "sms": device.get("numSms"),
            "memory_bytes": device.get("totalGlobalMem"),
        }
        for device in (devices if isinstance(devices, list) else [])
        if isinstance(device, dict)
    ]
    distributed = about.get("distributedInfo")
    if isinstance(distributed, dict):
        about |= {key: distributed[key] for key in ("rank", "world_size", "backend") if key in distributed}
    return about


def _nanoseconds(microseconds: Any) -> int:
    if isinstance(microseconds, int):
        return microseconds * 1000
    return round(float(microseconds) * 1000)


def _is_long(value: Any) -> bool:
    """Whether a process or a thread is called by something that is no name for one."""
    return isinstance(value, str) and len(value) > 1000


def _short(text: Any) -> str:
    return shown(str(text), 200)


def _with_id(name: str | None, number: Any) -> str:
    """Two threads of the same name are still two."""
    own = _short(number)
    if not name:
        return own
    return name if own in name else f"{name} {own}"
