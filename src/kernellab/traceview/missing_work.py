"""Work a GPU was asked for that a trace does not hold: its file breaks off, or the recording lost it.

CUDA's calls come before the GPU's rows in a file. One that is cut in between shows a CPU that asks and a GPU that does
next to nothing, which looks like the worst of launch-bound programs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from kernellab.traces.trace import NONE, ON_GPU, Kind, Rows, Trace
from kernellab.traceview.row_tree import Mask

_MUCH = 0.1  # of the launches: with more of them unseen, nothing is known of the GPU's time
_LAUNCHES = re.compile(r"(cuda|cu|hip)(\w*Launch\w*Kernel|Memcpy|Memset)")
_CAPTURES = {1: re.compile(r"(cuda|cu|hip)StreamBeginCapture"), -1: re.compile(r"(cuda|cu|hip)StreamEndCapture")}


@dataclass(frozen=True)
class MissingWork:
    """`launches` that asked a GPU for something, and how many of them started no row."""

    launches: int
    missing: int
    cut: bool  # before the first launch, of a program that had a GPU

    @property
    def much(self) -> bool:
        return self.cut or self.missing > _MUCH * self.launches


def unseen(trace: Trace, *, had_gpu: bool) -> MissingWork:
    rows, launches = trace.rows(*ON_GPU), _launches(trace)
    started = np.isin(launches, trace.launched_by[rows])
    # Where nothing says which call started a row, that none did says nothing of the launches.
    linked = bool((trace.launched_by[rows] != NONE).any()) or not len(rows)
    cut = had_gpu and not trace.complete and not len(rows) and not len(launches)
    return MissingWork(len(launches), int((~started).sum()) if linked else 0, cut)


def _launches(trace: Trace) -> Rows:
    calls = trace.rows(Kind.CALL)
    launches: Rows = calls[_named(trace, _LAUNCHES)[trace.name[calls]]]
    around = trace.parent[launches]
    launches = launches[(around == NONE) | (trace.kind[around] != Kind.CALL)]  # the driver's, within the runtime's
    # What a graph is captured from runs later, by the graph's launch.
    capturing = np.zeros(len(launches), dtype=np.int64)
    for opens, pattern in _CAPTURES.items():
        marks = np.sort(trace.begin[calls[_named(trace, pattern)[trace.name[calls]]]])
        capturing += opens * np.searchsorted(marks, trace.begin[launches])
    return np.asarray(launches[capturing <= 0])


def _named(trace: Trace, pattern: re.Pattern[str]) -> Mask:
    return np.array([bool(pattern.match(name)) for name in trace.names] or [False], dtype=np.bool_)
