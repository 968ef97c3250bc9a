"""A trace as one HTML page: threads and streams over time. It needs no network and no other file.

The page holds the table of events as packed columns, which the browser unpacks; its scripts (`assets/`, one file per
task) draw them. Names and details are only ever set as text: nothing of a trace becomes markup or code.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from html import escape
from string import Template
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from kernellab.reporting.html.parts import MOST_CHARACTERS, asset, json_in_script, label, source_hash
from kernellab.traces.blocking_calls import find_blocking_calls
from kernellab.traces.trace import ON_GPU, Kind, Trace

_KIND_NAMES = {  # plural and singular
    Kind.OTHER: ("other", "other"),
    Kind.OPERATOR: ("operators", "operator"),
    Kind.RANGE: ("ranges", "range"),
    Kind.MODULE: ("modules", "module"),
    Kind.PYTHON: ("Python", "Python function"),
    Kind.CALL: ("CUDA calls", "CUDA call"),
    Kind.GPU_RANGE: ("ranges on the GPU", "range on the GPU"),
    Kind.WAIT: ("waits", "wait"),
    Kind.KERNEL: ("kernels", "kernel"),
    Kind.COPY: ("copies", "copy"),
    Kind.FILL: ("fills", "fill"),
}
_SCRIPTS = ("events", "tracks", "search", "view", "draw", "details", "timeline")
_TITLE_CHARACTERS, _SHORT_CHARACTERS = 200, 80


class _Lane(TypedDict):
    """A thread or stream, as the script reads it."""

    process: str
    name: str
    gpu: bool
    events: int


class _Column(NamedTuple):
    """A column of the packed table: its name, the bytes of a value (0 for text), and its length in bytes."""

    name: str
    width: int
    length: int


def page(trace: Trace, title: str) -> str:
    """The whole document."""
    columns, packed = _pack(trace)
    about = {
        "columns": columns,
        "events": len(trace),
        "span": trace.span_ns,
        "kinds": [{"many": many, "one": one, "gpu": kind in ON_GPU} for kind, (many, one) in _kind_names()],
        "lanes": _lanes(trace),
        "notes": [label(note) for note in trace.notes],
    }
    style, dark = asset(__file__, "timeline.css"), asset(__file__, "timeline-dark.css")
    script = page_script()
    styles = f"{source_hash(style)} {source_hash(dark)}"
    return Template(asset(__file__, "timeline.html")).substitute(
        title=escape(label(title, _TITLE_CHARACTERS)),
        policy=f"default-src 'none'; script-src {source_hash(script)}; style-src {styles}; base-uri 'none'",
        style=style,
        dark=dark,
        script=script,
        about=json_in_script(about),
        packed=base64.b64encode(packed).decode(),
    )


def page_script() -> str:
    """The script of `page`, which the policy of a document around it must allow."""
    return "(() => {\n" + "".join(asset(__file__, f"{name}.js") for name in (*_SCRIPTS, "frame")) + "})();\n"


def _kind_names() -> list[tuple[Kind, tuple[str, str]]]:
    """In the order of `Kind`: the script looks kinds up by number."""
    return [(kind, _KIND_NAMES[kind]) for kind in Kind]


def _lanes(trace: Trace) -> list[_Lane]:
    event_counts = np.bincount(trace.lane, minlength=len(trace.lanes)).tolist()
    return [
        {
            "process": label(lane.process, _SHORT_CHARACTERS),
            "name": label(lane.name, _SHORT_CHARACTERS),
            "gpu": lane.on_gpu,
            "events": events,
        }
        for lane, events in zip(trace.lanes, event_counts, strict=True)
    ]


def _pack(trace: Trace) -> tuple[list[_Column], bytes]:
    """The columns, and the values of all of them, deflated."""
    duration = np.maximum(trace.duration, 0)
    # Within a lane times only grow, and small differences compress well. A lane's first time is relative to 0.
    since = np.diff(trace.begin, prepend=0)
    first = np.flatnonzero(np.diff(trace.lane, prepend=-1))
    since[first] = trace.begin[first]
    used, detail = np.unique(trace.detail, return_inverse=True)
    names = [label(name) for name in trace.names]
    values = {
        "since": (4, _byte_planes(since & 0xFFFFFFFF)),
        "since_high": (4, _byte_planes(since >> 32)),
        "duration": (4, _byte_planes(duration & 0xFFFFFFFF)),
        "duration_high": (4, _byte_planes(duration >> 32)),
        "kind": (1, trace.kind.astype(np.uint8).tobytes()),
        "name": (4, _byte_planes(trace.name)),
        "detail": (4, _byte_planes(detail)),
        "launcher": (4, _byte_planes(trace.launched_by + 1)),
        "waits": (1, find_blocking_calls(trace).astype(np.uint8).tobytes()),
        "names": (0, json.dumps(names).encode()),
        "details": (0, "\n".join(_detail_line(trace.details[at]) for at in used.tolist()).encode()),
    }
    columns = [_Column(name, width, len(data)) for name, (width, data) in values.items()]
    return columns, zlib.compress(b"".join(data for _, data in values.values()), 6)


def _byte_planes(column: npt.NDArray[np.int64]) -> bytes:
    """The lowest byte of every value, then the next of every value, and so on: similar bytes compress well."""
    return np.ascontiguousarray(column.astype("<u4").view(np.uint8).reshape(-1, 4).T).tobytes()


def _detail_line(details: Mapping[str, object]) -> str:
    """Pairs of key and value on one line: JSON escapes line ends."""
    return json.dumps([[label(str(key), _SHORT_CHARACTERS), _detail_value(value)] for key, value in details.items()])


def _detail_value(value: object) -> str:
    if isinstance(value, str):  # a stack has one line for each frame
        return "\n".join(label(line) for line in value[:MOST_CHARACTERS].splitlines())
    return label(json.dumps(value, default=str))
