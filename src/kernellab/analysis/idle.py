"""How busy the GPU was, the gaps in its work and what the CPU did then, and how far the CPU ran ahead."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from kernellab.findings.place import UNKNOWN_PLACE
from kernellab.traces.trace import NONE, Column, Mask, Rows
from kernellab.traceview.places import Places
from kernellab.traceview.row_tree import sum_by_key, take
from kernellab.traceview.view import View

_MAX_LISTED = 20  # gaps, and launch-bound stretches
_QUEUE_POINTS = 120
_MIN_STRETCH = 8  # consecutive kernels the GPU waited for
_AHEAD_NS = 20_000  # the GPU did not wait for a kernel that was launched this long before it ran
LOADERS = r"utils/data/dataloader\.py\(\d+\): (__next__|_next_data)|enumerate\(DataLoader\)"
# Code that marks or profiles the program is not its work.
_NOT_WORK = (
    r"torch/(autograd/profiler|profiler/|_ops|_dynamo|optim/)|kernellab/|__exit__|^<built-in method __(enter|exit)__"
)
CAUSES = {
    "wait": "the CPU had waited for the GPU and launched the next work only afterwards",
    "loader": "the CPU was fetching data",
    "host": "the CPU ran Python code that launches nothing on the GPU",
    "launch": "the CPU was still preparing the next launch: operators and launches take it longer than the GPU",
    "gpu": "the next kernel was already queued: the GPU's own pause between two kernels",
    "unknown": "the call that launched the next kernel was not recorded",
}
_CODES = {cause: code for code, cause in enumerate(CAUSES)}


class DeviceDocument(TypedDict):
    device: int
    busy_fraction: float


class CauseDocument(TypedDict):
    cause: str
    words: str
    count: int
    idle_us: float


class GapDocument(TypedDict):
    begin_us: float
    idle_us: float
    device: int
    cause: str
    words: str
    wait: str | None  # the blocking call, if the cause is a wait
    next: str | None  # the kernel that ended the gap
    cpu: str  # what the CPU was doing


class QueuePoint(TypedDict):
    at_us: float
    kernels: int  # launched and not yet begun


class StretchDocument(TypedDict):
    begin_us: float
    span_us: float
    kernels: int
    busy_fraction: float


class QueueDocument(TypedDict):
    ahead_us: float | None
    queue: list[QueuePoint]
    launch_bound: list[StretchDocument]


class IdleDocument(QueueDocument):
    busy_fraction: float | None
    devices: list[DeviceDocument]
    idle_us: float
    causes: list[CauseDocument]
    gaps: list[GapDocument]


@dataclass(frozen=True)
class Gaps:
    """The gaps of all GPUs: from the end of all work to the begin of the next."""

    begin: Column
    end: Column
    device: Column
    next: Rows  # the work that ended the gap, as a position in the view's GPU rows; NONE at the end of the steps

    @property
    def duration(self) -> Column:
        return self.end - self.begin


@dataclass(frozen=True)
class GapCauses:
    code: Column  # the position of each gap's cause in CAUSES
    wait: Rows  # the blocking call that returned in the gap


class IdleTime:
    """`waits` are the rows of blocking calls."""

    def __init__(self, view: View, places: Places, waits: Rows) -> None:
        self.view, self.places, self.waits = view, places, waits
        lanes = view.trace.lanes
        by_lane = np.array([NONE if lane.device is None else lane.device for lane in lanes], dtype=np.int64)
        self._device = by_lane[view.trace.lane[view.gpu_rows]] if len(view.gpu_rows) else view.gpu_rows
        # A GPU whose rows are missing only seems idle.
        complete = len(view.gpu_rows) and not view.missing_work.substantial
        self.devices: list[int] = np.unique(self._device[view.gpu_in_steps]).tolist() if complete else []

    @functools.cached_property
    def busy_ns(self) -> dict[int, int]:
        """By GPU: how long at least one of its streams was busy within the steps."""
        gaps = self.gaps
        return {
            device: self.view.steps.span_ns - int(gaps.duration[gaps.device == device].sum()) for device in self.devices
        }

    @functools.cached_property
    def gaps(self) -> Gaps:
        trace, steps = self.view.trace, self.view.steps
        parts = []
        for device in self.devices:
            at = np.flatnonzero(self._device == device)
            begin, end = trace.begin[self.view.gpu_rows[at]], self.view.end[self.view.gpu_rows[at]]
            in_steps = (end > steps.begin_ns) & (begin < steps.end_ns)
            at, begin, end = at[in_steps], begin[in_steps], end[in_steps]
            busy_until = np.maximum.accumulate(np.append(steps.begin_ns, end))
            next_begin = np.append(begin, steps.end_ns)
            idle = np.flatnonzero(next_begin > busy_until)
            rows = np.append(at, NONE)[idle]
            parts.append((busy_until[idle], next_begin[idle], np.full(len(rows), device), rows))
        if not parts:
            empty = np.zeros(0, dtype=np.int64)
            return Gaps(empty, empty, empty, empty)
        return Gaps(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    @functools.cached_property
    def causes(self) -> GapCauses:
        gaps, trace = self.gaps, self.view.trace
        call = take(self.view.gpu_calls, gaps.next)
        launched = np.where(call >= 0, take(trace.begin, call, 0), gaps.end)
        wait = self._first_wait_in(gaps.begin, launched)
        middle = (gaps.begin + np.maximum(launched, gaps.begin)) // 2
        main = np.full(len(middle), self.view.main_lane, dtype=np.int64)
        python = self.places.python_at(np.where(call >= 0, take(trace.lane, call, 0), main), middle)
        in_loader = take(self._loader_call, python) >= 0
        in_operator = self.view.operators.around(main, middle) >= 0
        in_host_work = take(self.places.tree.nearest(self.launches_nothing), python) >= 0
        tests = [
            ((call < 0) & (gaps.next >= 0), "unknown"),
            (launched <= gaps.begin, "gpu"),
            (in_loader, "loader"),
            (wait >= 0, "wait"),
            (in_host_work & ~in_operator, "host"),
        ]
        code = np.select([mask for mask, _ in tests], [_CODES[cause] for _, cause in tests], _CODES["launch"])
        return GapCauses(code.astype(np.int64), wait)

    def _first_wait_in(self, begin: Column, end: Column) -> Rows:
        """The first blocking call that returned in each span: the one that left the GPU without work."""
        if not len(self.waits):
            return np.full(len(begin), NONE, dtype=np.int64)
        ends = self.view.end[self.waits]
        order = np.argsort(ends, kind="stable")
        at = np.searchsorted(ends[order], begin)
        first = order[at.clip(max=len(order) - 1)]
        inside = (at < len(order)) & (ends[first] <= end)
        return np.where(inside, self.waits[first], NONE)

    @functools.cached_property
    def _loader_call(self) -> Rows:
        tree = self.places.tree
        return tree.nearest(self.view.names_matching(LOADERS)[tree.name])

    @functools.cached_property
    def launches_in(self) -> Column:
        """How much GPU work (in rows) each Python call launched."""
        tree = self.places.tree
        rows = self.view.gpu_calls[self.view.gpu_calls >= 0]
        at = self.places.python_at(self.view.trace.lane[rows], self.view.trace.begin[rows])
        return tree.totals(np.bincount(at[at >= 0], minlength=len(tree)).astype(np.int64))

    @functools.cached_property
    def modules_in(self) -> Column:
        """How many calls of modules each Python call contains."""
        tree = self.places.tree
        return tree.totals(np.isin(tree.rows, self.view.modules.rows).astype(np.int64))

    @functools.cached_property
    def launches_nothing(self) -> Mask:
        """Python calls that launch nothing, made directly by a function of the user that does launch."""
        tree, above = self.places.tree, self.places.tree.parent
        launches = self.launches_in > 0
        by_user = (above >= 0) & (take(self.places.user_frame, above) == above) & (take(self.launches_in, above, 0) > 0)
        return np.asarray(by_user & ~launches & ~self.view.names_matching(_NOT_WORK)[tree.name])

    @functools.cached_property
    def after_wait_ns(self) -> Column:
        """The GPU's idle time after each of `waits`."""
        by_wait = self.causes.code == _CODES["wait"]
        order = np.argsort(self.waits, kind="stable")
        idle = np.zeros(len(self.waits), dtype=np.int64)
        if by_wait.any():
            at = order[np.searchsorted(self.waits[order], self.causes.wait[by_wait])]
            np.add.at(idle, at, self.gaps.duration[by_wait])
        return idle

    def document(self) -> IdleDocument:
        span, devices = self.view.steps.span_ns, self.devices
        busy = sum(self.busy_ns.values())
        return {
            "busy_fraction": round(busy / (span * len(devices)), 4) if devices else None,
            "devices": [{"device": d, "busy_fraction": round(self.busy_ns[d] / span, 4)} for d in devices],
            "idle_us": round((span * len(devices) - busy) / 1e3, 3),
            "causes": self._by_cause(),
            "gaps": self._longest_gaps(),
            **self._queue(),
        }

    def _by_cause(self) -> list[CauseDocument]:
        code = self.causes.code
        idle = sum_by_key(code, self.gaps.duration, len(CAUSES))
        count = np.bincount(code, minlength=len(CAUSES))
        longest_first = sorted(enumerate(CAUSES.items()), key=lambda entry: -int(idle[entry[0]]))
        return [
            {"cause": cause, "words": words, "count": int(count[at]), "idle_us": round(int(idle[at]) / 1e3, 3)}
            for at, (cause, words) in longest_first
            if count[at]
        ]

    def _longest_gaps(self) -> list[GapDocument]:
        gaps, causes, trace, names = self.gaps, self.causes, self.view.trace, list(CAUSES)
        documents: list[GapDocument] = []
        for index in np.argsort(-gaps.duration, kind="stable")[:_MAX_LISTED].tolist():
            begin, position, cause = int(gaps.begin[index]), int(gaps.next[index]), names[int(causes.code[index])]
            call = int(self.view.gpu_calls[position]) if position >= 0 else NONE
            launched = int(trace.begin[call]) if call >= 0 else int(gaps.end[index])
            documents.append(
                {
                    "begin_us": round(begin / 1e3, 3),
                    "idle_us": round(int(gaps.duration[index]) / 1e3, 3),
                    "device": int(gaps.device[index]),
                    "cause": cause,
                    "words": CAUSES[cause],
                    "wait": trace.name_of(int(causes.wait[index])) if cause == "wait" else None,
                    "next": trace.name_of(int(self.view.gpu_rows[position])) if position >= 0 else None,
                    "cpu": self._cpu_activity((begin + max(launched, begin)) // 2, call),
                }
            )
        return documents

    def _cpu_activity(self, at: int, call: int) -> str:
        """What the thread was doing at a moment: the user's line, and the operator."""
        trace = self.view.trace
        lane = np.array([trace.lane[call] if call >= 0 else self.view.main_lane])
        moment = np.array([at])
        python = int(self.places.python_at(lane, moment)[0])
        place = self.places.locate_moment(python, at) if python >= 0 else UNKNOWN_PLACE
        operator = int(self.view.operators.around(lane, moment)[0])
        parts = [str(place)] if place.file else []
        if operator >= 0:
            parts.append(trace.names[int(self.view.operators.name[operator])])
        return ", in ".join(parts) or place.call or "nothing recorded"

    def _queue(self) -> QueueDocument:
        """How far the CPU ran ahead: how long kernels were queued, and how many."""
        view, trace = self.view, self.view.trace
        at = np.flatnonzero((view.gpu_calls >= 0) & view.gpu_in_steps)
        if not len(at):
            return {"ahead_us": None, "queue": [], "launch_bound": []}
        launched, began = view.end[view.gpu_calls[at]], trace.begin[view.gpu_rows[at]]
        ahead = began - launched
        edges = np.linspace(view.steps.begin_ns, view.steps.end_ns, _QUEUE_POINTS + 1)
        depth = np.searchsorted(np.sort(launched), edges, "right") - np.searchsorted(np.sort(began), edges, "right")
        return {
            "ahead_us": round(max(float(np.median(ahead)), 0.0) / 1e3, 3),
            "queue": [
                {"at_us": round(float(edge) / 1e3, 3), "kernels": max(int(count), 0)}
                for edge, count in zip(edges.tolist(), depth.tolist(), strict=True)
            ],
            "launch_bound": self._launch_bound_stretches(at, ahead),
        }

    def _launch_bound_stretches(self, at: Rows, ahead: Column) -> list[StretchDocument]:
        """Runs of kernels that each began soon after their launch, with the GPU idle in between; longest first."""
        rows = self.view.gpu_rows[at]
        begin, end = self.view.trace.begin[rows], self.view.end[rows]
        late = np.append(False, (ahead[1:] < _AHEAD_NS) & (begin[1:] > np.maximum.accumulate(end)[:-1]))
        edges = np.flatnonzero(np.diff(np.concatenate([[0], late.astype(np.int64), [0]])))
        stretches: list[StretchDocument] = []
        for first, past in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if past - first >= _MIN_STRETCH:
                span = int(end[past - 1] - begin[first])
                busy = int(self.view.trace.duration[rows[first:past]].sum())
                stretches.append(
                    {
                        "begin_us": round(int(begin[first]) / 1e3, 3),
                        "span_us": round(span / 1e3, 3),
                        "kernels": past - first,
                        "busy_fraction": round(min(busy / max(span, 1), 1.0), 4),
                    }
                )
        return sorted(stretches, key=lambda stretch: -stretch["span_us"])[:_MAX_LISTED]
