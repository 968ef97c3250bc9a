"""Where the CPU waits for the GPU: every blocking call, the user's line around it, and how long it waited."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np

from kernellab.findings.place import Place
from kernellab.traces.blocking_calls import find_blocking_calls, find_pageable_copies
from kernellab.traces.trace import Column, Mask, Rows
from kernellab.traceview.places import Places
from kernellab.traceview.row_tree import take
from kernellab.traceview.steps import is_step
from kernellab.traceview.view import View

# Locating a line takes time; further waits come from the same lines.
_MAX_LOCATED = 20_000


class WaitDocument(TypedDict):
    file: str | None
    line: int | None
    function: str | None
    exact: bool
    call: str
    code: str
    cuda: list[str]
    count: int
    wait_us: float
    idle_us: float
    pageable_copies: int


@dataclass(frozen=True)
class WaitSite:
    """The waits of one line."""

    place: Place
    rows: Rows  # the blocking calls
    python: Rows  # the distinct Python calls of the user's frame that contain them; positions
    cuda_calls: Sequence[str]
    count: int  # how often the line waited: an `.item()` is a copy and a synchronisation, and counts once
    wait_ns: int
    pageable_copies: int
    to_gpu: bool  # the pageable copies go to the GPU


class Waits:
    """`rows` are the blocking calls within the steps, in order of time, without the profiler's own."""

    def __init__(self, view: View, places: Places) -> None:
        self.view, self.places = view, places
        trace = view.trace
        self._pageable: Mask = find_pageable_copies(trace)
        rows = np.flatnonzero(find_blocking_calls(trace))
        rows = rows[(trace.begin[rows] >= view.steps.begin_ns) & (trace.begin[rows] < view.steps.cpu_end_ns)]
        at = places.python_at(trace.lane[rows], trace.begin[rows])
        rows = rows[take(places.profiler_frame, at) < 0]
        self.rows: Rows = rows[np.argsort(trace.begin[rows], kind="stable")]

    @functools.cached_property
    def sites(self) -> list[WaitSite]:
        """The waits by line, the longest first."""
        trace = self.view.trace
        at = self.places.python_at(trace.lane[self.rows], trace.begin[self.rows])
        groups: dict[Place, list[int]] = defaultdict(list)
        for index, place in enumerate(self.places.locate_rows(self.rows[:_MAX_LOCATED])):
            if not place.file:
                place = replace(place, call=place.call or self._call_without_python(int(self.rows[index])))
            groups[place].append(index)
        sites = []
        for place, members in groups.items():
            rows, user_call = self.rows[members], take(self.places.user_call, at[members])
            copies = rows[self._pageable[rows]]
            sites.append(
                WaitSite(
                    place=place,
                    rows=rows,
                    python=np.unique(user_call[user_call >= 0]),
                    cuda_calls=sorted({trace.name_of(int(row)) for row in rows}),
                    count=self._count(rows, user_call),
                    wait_ns=int(trace.duration[rows].sum()),
                    pageable_copies=len(copies),
                    to_gpu=self._are_to_gpu(copies),
                )
            )
        return sorted(sites, key=lambda site: -site.wait_ns)

    def _count(self, rows: Rows, user_call: Rows) -> int:
        """The number of user calls that contain the rows, else of operators, else of the rows themselves."""
        trace, operators = self.view.trace, self.view.operators
        outermost = take(operators.outermost, operators.around(trace.lane[rows], trace.begin[rows]))
        for enclosing in (user_call, outermost):
            if (enclosing >= 0).all():
                return len(np.unique(enclosing))
        return len(rows)

    def _call_without_python(self, row: int) -> str:
        """If no Python was recorded: the outermost operator around a call, else the call and the range around it."""
        trace, operators, ranges = self.view.trace, self.view.operators, self.view.ranges
        lane, moment = trace.lane[[row]], trace.begin[[row]]
        at = int(operators.around(lane, moment)[0])
        if at >= 0:
            return trace.names[int(operators.name[operators.outermost[at]])]
        within = int(ranges.around(lane, moment)[0])
        if within < 0:
            return trace.name_of(row)
        name = trace.names[int(ranges.name[within])]
        return f"{trace.name_of(row)} in {'a step' if is_step(name) else name}"

    def _are_to_gpu(self, copies: Rows) -> bool:
        if not len(copies):
            return False
        launched = self.view.gpu_rows[np.isin(self.view.gpu_calls, copies)]
        return any("HtoD" in self.view.trace.name_of(int(row)) for row in launched[:1])


def document(sites: Sequence[WaitSite], idle_ns: Column, rows: Rows) -> list[WaitDocument]:
    """`idle_ns` is the GPU's idle time after each of `rows`."""
    documents: list[WaitDocument] = []
    order = np.argsort(rows, kind="stable")
    for site in sites:
        at = order[np.searchsorted(rows[order], site.rows)] if len(rows) else site.rows
        documents.append(
            {
                "file": site.place.file,
                "line": site.place.line,
                "function": site.place.function,
                "exact": site.place.exact,
                "call": site.place.call or site.cuda_calls[0],
                "code": site.place.code,
                "cuda": list(site.cuda_calls),
                "count": site.count,
                "wait_us": round(site.wait_ns / 1e3, 3),
                "idle_us": round(int(idle_ns[at].sum()) / 1e3, 3),
                "pageable_copies": site.pageable_copies,
            }
        )
    return documents
