"""Is the GPU starved? How busy it was, the gaps in its work and what the CPU did then, how far the CPU ran ahead."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernellab.traces.trace import NONE, Column, Rows
from kernellab.traceview.places import UNKNOWN_PLACE, Places
from kernellab.traceview.row_tree import Mask, take, sums
from kernellab.traceview.view import View

_GAPS_SHOWN = 20
_BUCKETS = 120
_STRETCH = 8  # kernels in a row that the GPU waited for, to be called a stretch
_AHEAD_NS = 20_000  # a kernel asked for so long before it ran was not waited for
LOADERS = r"utils/data/dataloader\.py\(\d+\): (__next__|_next_data)|enumerate\(DataLoader\)"
# What marks and profiles a program is not its work.
_NOT_WORK = (
    r"torch/(autograd/profiler|profiler/|_ops|_dynamo|optim/)|kernellab/|__exit__|^<built-in method __(enter|exit)__"
)
CAUSES = {
    "wait": "the CPU had waited for the GPU, and asked for more only after",
    "loader": "the CPU was fetching data",
    "host": "the CPU ran Python that asks nothing of the GPU",
    "launch": "the CPU was on its way to the next kernel: operators and launches take it longer than the GPU",
    "gpu": "the next kernel was already asked for: the GPU's own pause between two",
    "unknown": "who asked for the next kernel is not recorded",
}


@dataclass(frozen=True)
class Gaps:
    """Of all GPUs, in the order of time: from the end of all work to the begin of the next."""

    begin: Column
    end: Column
    device: Column
    row: Rows  # what ended it, as a position in the view's `gpu`

    @property
    def duration(self) -> Column:
        return self.end - self.begin


class Idle:
    """`waits` are the rows of blocking calls."""

    def __init__(self, view: View, places: Places, waits: Rows) -> None:
        self.view, self.places, self.waits = view, places, waits
        lanes = view.trace.lanes
        of_lane = np.array([NONE if lane.device is None else lane.device for lane in lanes], dtype=np.int64)
        self.device = of_lane[view.trace.lane[view.gpu]] if len(view.gpu) else view.gpu
        # A GPU whose rows are missing only seems to idle.
        known = len(view.gpu) and not view.missing_work.substantial
        self.devices = np.unique(self.device[view.gpu_in_steps]).tolist() if known else []

    @functools.cached_property
    def busy_ns(self) -> dict[int, int]:
        """By GPU: how long something ran on any of its streams, within the steps."""
        idle = self.gaps
        return {
            device: self.view.steps.span_ns - int(idle.duration[idle.device == device].sum()) for device in self.devices
        }

    @functools.cached_property
    def gaps(self) -> Gaps:
        """The last of each GPU ends with the steps, and with nothing: its row is NONE."""
        trace, steps = self.view.trace, self.view.steps
        parts = []
        for device in self.devices:
            at = np.flatnonzero(self.device == device)
            begin, end = trace.begin[self.view.gpu[at]], self.view.end[self.view.gpu[at]]
            near = (end > steps.first_ns) & (begin < steps.last_ns)
            at, begin, end = at[near], begin[near], end[near]
            until = np.maximum.accumulate(np.append(steps.first_ns, end))
            nexts = np.append(begin, steps.last_ns)
            open_at = np.flatnonzero(nexts > until)
            rows = np.append(at, NONE)[open_at]
            parts.append((until[open_at], nexts[open_at], np.full(len(rows), device), rows))
        if not parts:
            empty = np.zeros(0, dtype=np.int64)
            return Gaps(empty, empty, empty, empty)
        return Gaps(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    @functools.cached_property
    def causes(self) -> tuple[Column, Rows]:
        """Each gap's cause, as a place in CAUSES, and, for a wait, the row that waited."""
        gaps, trace = self.gaps, self.view.trace
        call = take(self.view.calls, gaps.row)
        asked = np.where(call >= 0, take(trace.begin, call, 0), gaps.end)
        waited = self._waits_in(gaps.begin, asked)
        middle = (gaps.begin + np.maximum(asked, gaps.begin)) // 2
        main = np.full(len(middle), self.view.main, dtype=np.int64)
        python = self.places.around(np.where(call >= 0, take(trace.lane, call, 0), main), middle)
        loader = take(self._in_loader, python) >= 0
        operator = self.view.operators.around(main, middle) >= 0
        quiet = self._quiet(python)
        codes = [
            ((call < 0) & (gaps.row >= 0), "unknown"),
            (asked <= gaps.begin, "gpu"),
            (loader, "loader"),
            (waited >= 0, "wait"),
            (quiet & ~operator, "host"),
        ]
        names = list(CAUSES)
        code = np.select([mask for mask, _ in codes], [names.index(name) for _, name in codes], names.index("launch"))
        return code.astype(np.int64), waited

    def _waits_in(self, begin: Column, end: Column) -> Rows:
        """The blocking call that returned in each stretch: the first to, for it is the one that let the GPU run dry."""
        if not len(self.waits):
            return np.full(len(begin), NONE, dtype=np.int64)
        ends = self.view.end[self.waits]
        order = np.argsort(ends, kind="stable")
        at = np.searchsorted(ends[order], begin)
        inside = (at < len(order)) & (ends[order[at.clip(max=len(order) - 1)]] <= end)
        return np.where(inside, self.waits[order[at.clip(max=len(order) - 1)]], NONE)

    @functools.cached_property
    def _in_loader(self) -> Rows:
        return self.places.nest.nearest(self.view.named(LOADERS)[self.places.nest.name])

    @functools.cached_property
    def launches_in(self) -> Column:
        """How many rows of the GPU each Python call asked for."""
        nest = self.places.nest
        rows = self.view.calls[self.view.calls >= 0]
        at = self.places.around(self.view.trace.lane[rows], self.view.trace.begin[rows])
        return nest.totals(np.bincount(at[at >= 0], minlength=len(nest)).astype(np.int64))

    @functools.cached_property
    def modules_in(self) -> Column:
        """How many calls of modules each Python call holds."""
        nest = self.places.nest
        return nest.totals(np.isin(nest.rows, self.view.modules.rows).astype(np.int64))

    @functools.cached_property
    def silent(self) -> Mask:
        """Python calls that ask nothing of the GPU, made by lines of the user's function that does ask."""
        nest, above = self.places.nest, self.places.nest.parent
        asking = self.launches_in > 0
        users = (above >= 0) & (take(self.places.own, above) == above) & (take(self.launches_in, above, 0) > 0)
        return np.asarray(users & ~asking & ~self.view.named(_NOT_WORK)[nest.name])

    def _quiet(self, python: Rows) -> Mask:
        return np.asarray(take(self.places.nest.nearest(self.silent), python) >= 0)

    @functools.cached_property
    def after_wait_ns(self) -> Column:
        """The GPU's idle time that followed each of `waits`."""
        causes, waited = self.causes
        mine = causes == list(CAUSES).index("wait")
        order = np.argsort(self.waits, kind="stable")
        found = np.zeros(len(self.waits), dtype=np.int64)
        if mine.any():
            at = order[np.searchsorted(self.waits[order], waited[mine])]
            np.add.at(found, at, self.gaps.duration[mine])
        return found

    def document(self) -> dict[str, Any]:
        span, devices = self.view.steps.span_ns, self.devices
        busy = sum(self.busy_ns.values())
        return {
            "busy_fraction": round(busy / (span * len(devices)), 4) if devices else None,
            "devices": [{"device": d, "busy_fraction": round(self.busy_ns[d] / span, 4)} for d in devices],
            "idle_us": round((span * len(devices) - busy) / 1e3, 3),
            "causes": self._by_cause(),
            "gaps": self._longest(),
            **self._queue(),
        }

    def _by_cause(self) -> list[dict[str, Any]]:
        causes, _ = self.causes
        spent = sums(causes, self.gaps.duration, len(CAUSES))
        count = np.bincount(causes, minlength=len(CAUSES))
        return [
            {"cause": cause, "words": words, "count": int(count[at]), "idle_us": round(int(spent[at]) / 1e3, 3)}
            for at, (cause, words) in sorted(enumerate(CAUSES.items()), key=lambda one: -int(spent[one[0]]))
            if count[at]
        ]

    def _longest(self) -> list[dict[str, Any]]:
        gaps, (causes, waited) = self.gaps, self.causes
        trace, names, found = self.view.trace, list(CAUSES), []
        for index in np.argsort(-gaps.duration, kind="stable")[:_GAPS_SHOWN].tolist():
            row, cause = int(gaps.row[index]), names[int(causes[index])]
            call = int(self.view.calls[row]) if row >= 0 else NONE
            asked = int(trace.begin[call]) if call >= 0 else int(gaps.end[index])
            found.append(
                {
                    "begin_us": round(int(gaps.begin[index]) / 1e3, 3),
                    "idle_us": round(int(gaps.duration[index]) / 1e3, 3),
                    "device": int(gaps.device[index]),
                    "cause": cause,
                    "words": CAUSES[cause],
                    "wait": trace.name_of(int(waited[index])) if cause == "wait" else None,
                    "next": trace.name_of(int(self.view.gpu[row])) if row >= 0 else None,
                    "cpu": self._doing((int(gaps.begin[index]) + max(asked, int(gaps.begin[index]))) // 2, call),
                }
            )
        return found

    def _doing(self, at: int, call: int) -> str:
        """What the thread was in at a moment: the user's line, and the operator."""
        trace = self.view.trace
        lane = np.array([trace.lane[call] if call >= 0 else self.view.main])
        moment = np.array([at])
        python = int(self.places.around(lane, moment)[0])
        place = self.places.at(python, at) if python >= 0 else UNKNOWN_PLACE
        operator = int(self.view.operators.around(lane, moment)[0])
        parts = [str(place)] if place.file else []
        if operator >= 0:
            parts.append(trace.names[int(self.view.operators.name[operator])])
        return ", in ".join(parts) or place.call or "nothing recorded"

    def _queue(self) -> dict[str, Any]:
        """How far the CPU ran ahead: the time kernels waited for their turn, and how many did."""
        view, trace = self.view, self.view.trace
        mine = np.flatnonzero((view.calls >= 0) & view.gpu_in_steps)
        if not len(mine):
            return {"ahead_us": None, "queue": [], "launch_bound": []}
        rows = view.gpu[mine]
        asked, began = view.end[view.calls[mine]], trace.begin[rows]
        ahead = began - asked
        edges = np.linspace(view.steps.first_ns, view.steps.last_ns, _BUCKETS + 1)
        depth = np.searchsorted(np.sort(asked), edges, "right") - np.searchsorted(np.sort(began), edges, "right")
        queue = [
            {"at_us": round(float(at) / 1e3, 3), "kernels": max(int(count), 0)}
            for at, count in zip(edges.tolist(), depth.tolist(), strict=True)
        ]
        middle = float(np.median(ahead))
        return {
            "ahead_us": round(max(middle, 0.0) / 1e3, 3),
            "queue": queue,
            "launch_bound": self._stretches(mine, ahead),
        }

    def _stretches(self, mine: Rows, ahead: Column) -> list[dict[str, Any]]:
        """Runs of kernels that each began soon after they were asked for, with the GPU idle in between."""
        rows = self.view.gpu[mine]
        begin, end = self.view.trace.begin[rows], self.view.end[rows]
        late = np.append(False, (ahead[1:] < _AHEAD_NS) & (begin[1:] > np.maximum.accumulate(end)[:-1]))
        edges = np.flatnonzero(np.diff(np.concatenate([[0], late.astype(np.int64), [0]])))
        found = []
        for first, past in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if past - first >= _STRETCH:
                span = int(end[past - 1] - begin[first])
                busy = int(self.view.trace.duration[rows[first:past]].sum())
                found.append(
                    {
                        "begin_us": round(int(begin[first]) / 1e3, 3),
                        "span_us": round(span / 1e3, 3),
                        "kernels": past - first,
                        "busy_fraction": round(min(busy / max(span, 1), 1.0), 4),
                    }
                )
        return sorted(found, key=lambda one: -float(one["span_us"]))[:_GAPS_SHOWN]
