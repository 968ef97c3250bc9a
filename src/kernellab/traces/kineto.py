"""Reads the Chrome JSON of PyTorch's profiler (Kineto) into a trace.

The file may come from anywhere. An event with a missing or invalid field is dropped and counted, never an error.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Mapping
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.json import JsonObject, JsonValue
from kernellab.base.text import printable
from kernellab.traces.builder import LATEST_NS, TraceBuilder
from kernellab.traces.chrome_events import ChromeEvents, NotATrace
from kernellab.traces.row_details import INT64, printable_value, valid_details
from kernellab.traces.text_chunks import read_chunks
from kernellab.traces.trace import Kind, Lane, Trace

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
_ON_STREAMS = {Kind.GPU_RANGE, Kind.WAIT, Kind.KERNEL, Kind.COPY, Kind.FILL}
_MODULE_PREFIX = "nn.Module: "

# The arguments of an event that become details: Kineto's name, then the name used here.
_COLLECTIVE = {
    "Collective name": "collective",
    "In msg nelems": "elements",
    "Group size": "group_size",
    "dtype": "dtype",
}
_DETAILS: dict[Kind, dict[str, str]] = {
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
_MAX_DETAILS = 1 << 16  # bytes of one event's details
_MAX_NAMED = 20_000  # processes and threads with names
_PROFILER_PROCESS = -1  # the process of the profiler's own overhead events


def read(path: Path) -> Trace:
    notes: list[str] = []
    events = ChromeEvents(read_chunks(path, notes))
    reader = _EventReader()
    try:
        for event in events:
            reader.add(event)
            if reader.builder.full:
                notes.append(f"Only the first {len(reader.builder):,} events are read.")
                break
    except NotATrace as error:
        raise UserError(" ".join([f"{path} {error}.", *notes])) from None
    notes += events.notes
    reader.builder.complete = not notes
    if not len(reader.builder) and notes:
        raise UserError(f"Nothing can be read from {path}: {' '.join(notes)}")
    return reader.build(events.metadata, notes)


def from_document(document: Mapping[str, JsonValue]) -> Trace:
    """The trace of a small, complete file, parsed at once: that takes half as long as event by event."""
    reader, events = _EventReader(), document["traceEvents"]
    for event in events if isinstance(events, list) else []:
        reader.add(event)
    return reader.build({key: value for key, value in document.items() if key != "traceEvents"}, [])


class _EventReader:
    """Turns events into rows."""

    def __init__(self) -> None:
        self.builder = TraceBuilder("kineto")
        self._lanes: dict[tuple[JsonValue, JsonValue, bool], int] = {}
        self._detail_numbers: dict[bytes, int] = {}
        self._processes: dict[JsonValue, str] = {}
        self._threads: dict[tuple[JsonValue, JsonValue], str] = {}

    def add(self, event: JsonValue) -> None:
        try:
            if not isinstance(event, dict):
                raise TypeError
            phase = event["ph"]
            if phase == "X":
                self._add_row(event)
            elif phase == "i":
                if event.get("name") == "[memory]":
                    self._add_allocation(event)
            elif phase == "M":
                self._add_name(event)
        except (TypeError, ValueError, KeyError, OverflowError):
            self.builder.dropped["an event with a missing or invalid field"] += 1

    def _add_row(self, event: JsonObject) -> None:
        category, name = event.get("cat"), event["name"]
        if not isinstance(name, str) or not (category is None or isinstance(category, str)):
            raise TypeError
        if category == "Trace":  # the profiler itself, from start to stop
            return
        kind = _KINDS.get(category or "", Kind.OTHER)
        if kind is Kind.PYTHON and name.startswith(_MODULE_PREFIX):
            kind, name = Kind.MODULE, name[len(_MODULE_PREFIX) :]
        begin, duration = _nanoseconds(event["ts"]), _nanoseconds(event.get("dur", 0))
        if not 0 <= begin < LATEST_NS or duration > LATEST_NS:
            self.builder.dropped["an event at an impossible time"] += 1
            return
        if duration < 0:
            self.builder.dropped["the duration of an event that ends before it begins"] += 1
            duration = 0
        args = event.get("args") or {}
        if not isinstance(args, dict):
            raise TypeError
        link = sequence = detail = 0
        if args:
            link, sequence = _integer(args.get("correlation")), _integer(args.get("Sequence number"), -1) + 1
            if not (-INT64 < link < INT64 and -INT64 < sequence < INT64):
                link = sequence = 0
            if kind in _DETAILS:
                detail = self._detail(args, _DETAILS[kind])
        lane = self._lane(event, args, kind in _ON_STREAMS)
        self.builder.add(
            kind, self.builder.name(name), lane, begin, duration, link=link, sequence=sequence, detail=detail
        )

    def _lane(self, event: JsonObject, args: JsonObject, on_gpu: bool) -> int:
        process, thread = event.get("pid"), event.get("tid")
        number = self._lanes.get((process, thread, on_gpu))
        if number is not None:
            return number
        if self.builder.lanes_full or _is_too_long(process) or _is_too_long(thread):
            raise ValueError
        if on_gpu:
            device, stream = _index(args.get("device", process)), _index(args.get("stream", thread))
            if not -INT64 < device < INT64:
                raise ValueError
            lane = Lane(f"GPU {device}", f"stream {stream}", device, stream)
        else:
            lane = Lane(_label(process), _label(thread))
        number = self._lanes[process, thread, on_gpu] = self.builder.lane(lane)
        return number

    def _detail(self, args: JsonObject, names: Mapping[str, str]) -> int:
        kept = {names[key]: value for key, value in args.items() if key in names and value not in (None, "", [])}
        if not kept:
            return 0
        key = marshal.dumps(kept, 2)  # the fastest serialisation; from version 3 on, equal values may differ
        number = self._detail_numbers.get(key)
        if number is None:
            if len(key) > _MAX_DETAILS:
                self.builder.dropped["an event's details, because they are too long"] += 1
                return 0
            details = valid_details(kept)
            if len(details) < len(kept):
                self.builder.dropped["a detail of the wrong type or range"] += 1
            number = self.builder.detail(json.dumps(details), details) if details else 0
            if number:
                self._detail_numbers[key] = number
        return number

    def _add_allocation(self, event: JsonObject) -> None:
        args, at = event["args"], _nanoseconds(event["ts"])
        if not isinstance(args, dict):
            raise TypeError
        where = args["Device Id"] if args.get("Device Type") else -1
        values = (at, args["Bytes"], args.get("Total Allocated", 0), where, args.get("Addr", 0))
        numbers = [value for value in values if isinstance(value, int) and -INT64 < value < INT64]
        if len(numbers) < len(values) or not 0 <= at < LATEST_NS:
            raise ValueError
        at, size, total, device, address = numbers
        self.builder.add_allocation(at, size, total, device, address, self._lane(event, args, False))

    def _add_name(self, event: JsonObject) -> None:
        args, process, thread = event["args"], event.get("pid"), event.get("tid")
        if not isinstance(args, dict):
            raise TypeError
        name = args.get("name")
        if not name or _is_too_long(process) or _is_too_long(thread):
            return
        if len(self._processes) + len(self._threads) >= _MAX_NAMED:
            return
        if event.get("name") == "process_name":
            self._processes[process] = _label(name)
        elif event.get("name") == "thread_name":
            self._threads[process, thread] = _label(name)

    def build(self, metadata: JsonObject, notes: list[str]) -> Trace:
        builder = self.builder
        for (process, thread, on_gpu), number in self._lanes.items():
            if on_gpu:
                continue
            process_name, thread_name = self._processes.get(process), self._threads.get((process, thread))
            lane = Lane(_with_id(process_name, process), _with_id(thread_name, thread))
            builder.rename_lane(number, Lane("profiler", "overhead") if process == _PROFILER_PROCESS else lane)
        zero = metadata.get("baseTimeNanoseconds", 0)
        builder.zero_ns = zero if isinstance(zero, int) and 0 <= zero < INT64 else 0
        builder.metadata = _metadata(metadata)
        builder.notes = notes
        if not len(builder):
            builder.notes.append("The trace holds no events.")
        return builder.build()


def _metadata(top: JsonObject) -> JsonObject:
    """The values beside the events, with `gpus`, `rank` and `world_size` under the names that all readers use."""
    metadata = {key: printable_value(value) for key, value in top.items()}
    devices = metadata.get("deviceProperties")
    metadata["gpus"] = [
        {
            "index": device.get("id"),
            "name": device.get("name"),
            "sms": device.get("numSms"),
            "memory_bytes": device.get("totalGlobalMem"),
        }
        for device in (devices if isinstance(devices, list) else [])
        if isinstance(device, dict)
    ]
    distributed = metadata.get("distributedInfo")
    if isinstance(distributed, dict):
        metadata |= {key: distributed[key] for key in ("rank", "world_size", "backend") if key in distributed}
    return metadata


def _nanoseconds(microseconds: JsonValue) -> int:
    if isinstance(microseconds, int):
        return microseconds * 1000
    if isinstance(microseconds, float | str):
        return round(float(microseconds) * 1000)
    raise TypeError


def _integer(value: JsonValue, default: int = 0) -> int:
    if isinstance(value, int):
        return value
    if value is None:
        return default
    if isinstance(value, float):
        return int(value)
    raise TypeError


def _index(value: JsonValue) -> int:
    """The number of a device or stream, which may be written as text."""
    if isinstance(value, int | float | str):
        return int(value)
    raise TypeError


def _is_too_long(value: JsonValue) -> bool:
    """Whether a text is too long to identify a process or a thread."""
    return isinstance(value, str) and len(value) > 1000


def _label(value: JsonValue) -> str:
    return printable(str(value), 200)


def _with_id(name: str | None, number: JsonValue) -> str:
    """The name with the number, so that two threads of the same name stay distinct."""
    label = _label(number)
    if not name:
        return label
    return name if label in name else f"{name} {label}"
