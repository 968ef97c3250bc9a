"""Where the CPU waits for the GPU: every call that blocks, the user's line around it, and what it cost."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernellab.traces.blocking_calls import blocking, pageable
from kernellab.traces.trace import Column, Rows
from kernellab.traceview.places import Place, Places
from kernellab.traceview.row_tree import Mask, take
from kernellab.traceview.steps import is_step
from kernellab.traceview.view import View

# Resolving a line looks at a row's neighbours; a trace with more waits than this has them from the same lines.
_MOST_PLACED = 20_000


@dataclass(frozen=True)
class Site:
    """The waits of one line."""

    place: Place
    rows: Rows  # the blocking calls
    python: Rows  # the Python calls the user's frame made, once each; positions
    calls: Sequence[str]
    times: int  # how often the line waited: a `.item()` is a copy and a wait, and one call
    wait_ns: int
    copies: int  # of those, from or to pageable memory
    to_gpu: bool


class Waits:
    def __init__(self, view: View, places: Places) -> None:
        self.view, self.places = view, places
        trace = view.trace
        self.pageable: Mask = pageable(trace)
        rows = np.flatnonzero(blocking(trace))
        inside = (trace.begin[rows] >= view.steps.first_ns) & (trace.begin[rows] < view.steps.asked_ns)
        rows = rows[inside]
        at = places.around(trace.lane[rows], trace.begin[rows])
        profilers = take(places.of_the_profiler, at) >= 0
        self.rows: Rows = rows[~profilers][np.argsort(trace.begin[rows[~profilers]], kind="stable")]

    @functools.cached_property
    def sites(self) -> list[Site]:
        """By line, the longest wait first."""
        trace = self.view.trace
        at = self.places.around(trace.lane[self.rows], trace.begin[self.rows])
        placed = self.places.of(self.rows[:_MOST_PLACED])
        groups: dict[Place, list[int]] = defaultdict(list)
        for index, place in enumerate(placed):
            known = place if place.file else replace(place, call=place.call or self._known_as(int(self.rows[index])))
            groups[known].append(index)
        sites = []
        for place, members in groups.items():
            rows, python = self.rows[members], at[members]
            made = take(self.places.made, python)
            copies = rows[self.pageable[rows]]
            sites.append(
                Site(
                    place=place,
                    rows=rows,
                    python=np.unique(made[made >= 0]),
                    calls=sorted({trace.name_of(int(row)) for row in rows}),
                    times=self._times(rows, made),
                    wait_ns=int(trace.duration[rows].sum()),
                    copies=len(copies),
                    to_gpu=self._to_gpu(copies),
                )
            )
        return sorted(sites, key=lambda site: -site.wait_ns)

    def _times(self, rows: Rows, made: Rows) -> int:
        trace, nest = self.view.trace, self.view.operators
        operator = take(nest.outermost, nest.around(trace.lane[rows], trace.begin[rows]))
        for holders in (made, operator):
            if (holders >= 0).all():
                return len(np.unique(holders))
        return len(rows)

    def _known_as(self, row: int) -> str:
        """Where no Python was recorded: the outermost operator around a call, else the call and the range it is in."""
        trace, nest, ranges = self.view.trace, self.view.operators, self.view.ranges
        lane, moment = trace.lane[[row]], trace.begin[[row]]
        at = int(nest.around(lane, moment)[0])
        if at >= 0:
            return trace.names[int(nest.name[nest.outermost[at]])]
        within = int(ranges.around(lane, moment)[0])
        if within < 0:
            return trace.name_of(row)
        name = trace.names[int(ranges.name[within])]
        return f"{trace.name_of(row)} in {'a step' if is_step(name) else name}"

    def _to_gpu(self, calls: Rows) -> bool:
        """Whether copies went to the GPU."""
        if not len(calls):
            return False
        started = self.view.gpu[np.isin(self.view.calls, calls)]
        return any("HtoD" in self.view.trace.name_of(int(row)) for row in started[:1])


def points(sites: Sequence[Site], idle_of: Column, rows: Rows) -> list[dict[str, Any]]:
    """`idle_of` is the GPU's idle time that followed each of `rows`, sorted by row."""
    found = []
    order = np.argsort(rows, kind="stable")
    for site in sites:
        at = order[np.searchsorted(rows[order], site.rows)] if len(rows) else site.rows
        found.append(
            {
                "file": site.place.file,
                "line": site.place.line,
                "function": site.place.function,
                "exact": site.place.exact,
                "call": site.place.call or site.calls[0],
                "code": site.place.code,
                "cuda": list(site.calls),
                "count": site.times,
                "wait_us": round(site.wait_ns / 1e3, 3),
                "idle_us": round(int(idle_of[at].sum()) / 1e3, 3),
                "pageable_copies": site.copies,
            }
        )
    return found
