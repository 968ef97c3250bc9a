"""A trace as one page to look at: threads and streams over time. It needs no network, and nothing but itself.

The table of events lies in the page as packed columns, which the browser unpacks; the page's own script draws them
(`page/`, a file for each idea). Names and details are only ever text there: nothing of a trace becomes markup or code.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from html import escape
from string import Template
from typing import Any

import numpy as np
import numpy.typing as npt

from kernellab.reporting.pages.html import LONGEST, in_script, part, printable
from kernellab.traces.blocking_calls import find_blocking_calls
from kernellab.traces.trace import ON_GPU, Kind, Trace

_KINDS = {  # many of them, and one
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


def page(trace: Trace, title: str) -> str:
    """The whole document."""
    columns, packed = _packed(trace)
    about = {
        "columns": columns,
        "events": len(trace),
        "span": trace.span_ns,
        "kinds": [{"many": _KINDS[kind][0], "one": _KINDS[kind][1], "gpu": kind in ON_GPU} for kind in Kind],
        "lanes": _lanes(trace),
        "notes": [printable(note) for note in trace.notes],
    }
    style = part("timeline.css")
    script = "(() => {\n" + "".join(part(f"{name}.js") for name in _SCRIPTS) + "})();\n"
    return Template(part("timeline.html")).substitute(
        title=escape(printable(title, 200)),
        policy=f"default-src 'none'; script-src {_allowed(script)}; style-src {_allowed(style)}; base-uri 'none'",
        style=style,
        script=script,
        about=in_script(about),
        packed=base64.b64encode(packed).decode(),
    )


def _allowed(text: str) -> str:
    """The one script, or style, that may act in the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _lanes(trace: Trace) -> list[dict[str, Any]]:
    counted = np.bincount(trace.lane, minlength=len(trace.lanes)).tolist()
    return [
        {"process": printable(lane.process, 80), "name": printable(lane.name, 80), "gpu": lane.on_gpu, "events": events}
        for lane, events in zip(trace.lanes, counted, strict=True)
    ]


def _packed(trace: Trace) -> tuple[list[tuple[str, int, int]], bytes]:
    """Each column with its name, the bytes of a value and how many bytes it is; and all of them, deflated."""
    duration = np.maximum(trace.duration, 0)
    # Within a lane times only grow: small differences pack well. A lane's first time is counted from 0.
    since = np.diff(trace.begin, prepend=0)
    first = np.flatnonzero(np.diff(trace.lane, prepend=-1))
    since[first] = trace.begin[first]
    used, detail = np.unique(trace.detail, return_inverse=True)
    names = [printable(name) for name in trace.names]
    parts = {
        "since": (4, _planes(since & 0xFFFFFFFF)),
        "since_high": (4, _planes(since >> 32)),
        "duration": (4, _planes(duration & 0xFFFFFFFF)),
        "duration_high": (4, _planes(duration >> 32)),
        "kind": (1, trace.kind.astype(np.uint8).tobytes()),
        "name": (4, _planes(trace.name)),
        "detail": (4, _planes(detail)),
        "starter": (4, _planes(trace.launched_by + 1)),
        "waits": (1, find_blocking_calls(trace).astype(np.uint8).tobytes()),
        "names": (0, json.dumps(names).encode()),
        "details": (0, "\n".join(_detail(trace.details[at]) for at in used.tolist()).encode()),
    }
    columns = [(name, width, len(data)) for name, (width, data) in parts.items()]
    return columns, zlib.compress(b"".join(data for _, data in parts.values()), 6)


def _planes(column: npt.NDArray[np.int64]) -> bytes:
    """The lowest byte of every value, then the next of every value, and so on: alike bytes side by side pack well."""
    return np.ascontiguousarray(column.astype("<u4").view(np.uint8).reshape(-1, 4).T).tobytes()


def _detail(known: Any) -> str:
    """One line: JSON writes line ends as escapes."""
    return json.dumps([[printable(str(key), 80), _value(value)] for key, value in known.items()])


def _value(value: Any) -> str:
    if isinstance(value, str):
        # A stack is a line for each frame.
        return "\n".join(printable(line) for line in value[:LONGEST].splitlines())
    return printable(json.dumps(value, default=str))
