"""GPU work that was launched but has no row in the trace: the file is truncated, or the recording lost it.

CUDA calls come before GPU rows in a file. A file truncated between them shows a CPU that launches and a GPU that does
almost nothing, which looks like an extreme launch-bound program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from kernellab.traces.trace import NONE, ON_GPU, Kind, Mask, Rows, Trace

_SUBSTANTIAL = 0.1  # share of the launches: with more of them missing, nothing is known about the GPU's time
_LAUNCHES = re.compile(r"(cuda|cu|hip)(\w*Launch\w*Kernel|Memcpy|Memset)")
_CAPTURES = {1: re.compile(r"(cuda|cu|hip)StreamBeginCapture"), -1: re.compile(r"(cuda|cu|hip)StreamEndCapture")}


@dataclass(frozen=True)
class MissingWork:
    """`launches` counts all launches and copies, `missing` those without a row on the GPU."""

    launches: int
    missing: int
    cut: bool  # the program has a GPU, and the file ends before the first launch

    @property
    def substantial(self) -> bool:
        return self.cut or self.missing > _SUBSTANTIAL * self.launches


def find_missing_work(trace: Trace, *, had_gpu: bool) -> MissingWork:
    gpu_rows, launches = trace.rows(*ON_GPU), _launches(trace)
    launched_by = trace.launched_by[gpu_rows]
    has_row = np.isin(launches, launched_by)
    # If no GPU row is linked to a call, launches without a linked row prove nothing.
    linked = bool((launched_by != NONE).any()) or not len(gpu_rows)
    cut = had_gpu and not trace.complete and not len(gpu_rows) and not len(launches)
    return MissingWork(len(launches), int((~has_row).sum()) if linked else 0, cut)


def _launches(trace: Trace) -> Rows:
    calls = trace.rows(Kind.CALL)
    launches: Rows = calls[_matches(trace, _LAUNCHES)[trace.name[calls]]]
    around = trace.parent[launches]
    launches = launches[(around == NONE) | (trace.kind[around] != Kind.CALL)]  # not a driver call inside a runtime call
    # Launches that are captured into a CUDA graph do not run yet: the graph's launch runs them later.
    capturing = np.zeros(len(launches), dtype=np.int64)
    for opens, pattern in _CAPTURES.items():
        marks = np.sort(trace.begin[calls[_matches(trace, pattern)[trace.name[calls]]]])
        capturing += opens * np.searchsorted(marks, trace.begin[launches])
    return np.asarray(launches[capturing <= 0])


def _matches(trace: Trace, pattern: re.Pattern[str]) -> Mask:
    return np.array([bool(pattern.match(name)) for name in trace.names] or [False], dtype=np.bool_)
