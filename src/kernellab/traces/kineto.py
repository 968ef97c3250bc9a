"""PyTorch's profiler: Kineto's Chrome JSON, read into a trace."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
# What is kept of an event beside its columns, by the names used here.
_KEPT = {
    "Input Dims": "shapes",
    "Input type": "types",
    "Concrete Inputs": "values",
    "grid": "grid",
    "block": "block",
    "registers per thread": "registers",
    "shared memory": "shared_bytes",
    "bytes": "bytes",
    "Call stack": "stack",
}


def read(path: Path) -> Trace:
    opened = gzip.open if path.read_bytes()[:2] == b"\x1f\x8b" else open
    with opened(path, "rt") as file:
        document = json.load(file)
    builder = Builder("kineto")
    builder.zero_ns = int(document.get("baseTimeNanoseconds", 0))
    builder.about = {key: value for key, value in document.items() if key != "traceEvents"}
    for event in document["traceEvents"]:
        _add(builder, event)
    return builder.trace()


def _add(builder: Builder, event: Mapping[str, Any]) -> None:
    kind = _KINDS.get(event.get("cat", ""))
    args = event.get("args") or {}
    at = round(float(event.get("ts", 0)) * 1000)
    if event.get("ph") == "i" and event.get("name") == "[memory]":
        lane = builder.lane(_lane(event, args, on_gpu=False))
        device = args["Device Id"] if args.get("Device Type") else -1
        builder.allocate(at, args["Bytes"], args["Total Allocated"], device, args.get("Addr", 0), lane)
    if event.get("ph") != "X" or kind is None:
        return
    if kind is Kind.PYTHON and event["name"].startswith("nn.Module: "):
        kind = Kind.MODULE
    kept = {ours: args[theirs] for theirs, ours in _KEPT.items() if args.get(theirs) not in (None, "", [])}
    builder.add(
        kind,
        builder.name(event["name"].removeprefix("nn.Module: ")),
        builder.lane(_lane(event, args, on_gpu=kind in (Kind.GPU_RANGE, Kind.WAIT, Kind.KERNEL, Kind.COPY, Kind.FILL))),
        at,
        round(float(event.get("dur", 0)) * 1000),
        link=int(args.get("correlation", 0)),
        sequence=int(args.get("Sequence number", -1)) + 1,
        detail=builder.detail(json.dumps(kept), kept) if kept else 0,
    )


def _lane(event: Mapping[str, Any], args: Mapping[str, Any], *, on_gpu: bool) -> Lane:
    process, thread = str(event.get("pid")), str(event.get("tid"))
    if on_gpu:
        return Lane(f"GPU {process}", f"stream {thread}", int(args.get("device", process)), int(thread))
    return Lane(process, thread)
