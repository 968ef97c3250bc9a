"""Which CUDA calls block the host until the GPU is done; the only list of them.

A call blocks by its name (`cudaStreamSynchronize`, `cudaMemcpy`, `cudaFree`), or because it copies from or to pageable
memory: such a copy blocks although its name ends in `Async`.
"""

from __future__ import annotations

import re

import numpy as np

from kernellab.traces.trace import NONE, Kind, Mask, Trace

_BLOCKING = re.compile(
    r"(cuda|hip)(Stream|Device|Event|Thread)Synchronize|cu(Stream|Ctx|Event)Synchronize"
    r"|(cuda|hip)(Memcpy|Memcpy2D|Free|FreeHost)(_v\d+)?$|cuMemcpy(DtoH|HtoD|DtoD)?(_v\d+)?$|cuMemFree(?!Async)"
)
_ASYNC_COPY = re.compile(r"(cuda|hip)Memcpy\w*Async|cuMemcpy\w*Async")
_PAGEABLE = "pageable"  # in the name of a copy: "Memcpy HtoD (Pageable -> Device)"


def find_blocking_calls(trace: Trace) -> Mask:
    """Which rows are calls that block the host until the GPU is done."""
    blocking, copies = (
        np.array([bool(pattern.match(name)) for name in trace.names] or [False]) for pattern in (_BLOCKING, _ASYNC_COPY)
    )
    pageable = find_pageable_copies(trace)
    return np.asarray((trace.kind == Kind.CALL) & (blocking[trace.name] | (copies[trace.name] & pageable)))


def find_pageable_copies(trace: Trace) -> Mask:
    """Which rows are calls that launched a copy from or to pageable memory."""
    calls = trace.launched_by[np.flatnonzero(is_pageable_copy(trace))]
    launches_copy = np.zeros(len(trace), dtype=np.bool_)
    launches_copy[calls[calls != NONE]] = True
    return launches_copy


def is_pageable_copy(trace: Trace) -> Mask:
    """Which rows are copies on the GPU from or to pageable memory."""
    named = np.array([_PAGEABLE in name.lower() for name in trace.names] or [False])
    return np.asarray((trace.kind == Kind.COPY) & named[trace.name])
