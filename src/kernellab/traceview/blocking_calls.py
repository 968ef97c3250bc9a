"""Which calls of CUDA make the CPU wait for the GPU: by their names, and by the copies they started."""

from __future__ import annotations

import re

import numpy as np

from kernellab.traces.trace import NONE, Kind, Trace
from kernellab.traceview.nest import Mask

SYNCHRONISE = re.compile(r"(cuda|hip)(Stream|Device|Event|Thread)Synchronize|cu(Stream|Ctx|Event)Synchronize")
_WAITS = re.compile(
    SYNCHRONISE.pattern
    + r"|(cuda|hip)(Memcpy|Memcpy2D|Free|FreeHost)(_v\d+)?$|cuMemcpy(DtoH|HtoD|DtoD)?(_v\d+)?$|cuMemFree(?!Async)"
)
_COPIES = re.compile(r"(cuda|hip)Memcpy\w*Async|cuMemcpy\w*Async")


def pageable(trace: Trace) -> Mask:
    """Calls that started a copy from or to pageable memory: they wait, whatever they are called."""
    found = np.zeros(len(trace), dtype=np.bool_)
    named = np.array(["pageable" in name.lower() for name in trace.names] or [False])
    copies = trace.rows(Kind.COPY)
    calls = trace.starter[copies[named[trace.name[copies]]]]
    found[calls[calls != NONE]] = True
    return found


def blocking(trace: Trace) -> Mask:
    """Calls that return when the GPU is done."""
    waits, copies = (
        np.array([bool(pattern.match(name)) for name in trace.names] or [False]) for pattern in (_WAITS, _COPIES)
    )
    found: Mask = (trace.kind == Kind.CALL) & (waits[trace.name] | (copies[trace.name] & pageable(trace)))
    return found
