"""What makes a step slow: each cause with the line at fault, and what a step gains without it, by replay."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kernellab.analysis.first_calls import first_calls
from kernellab.analysis.fusion import Chain
from kernellab.analysis.idle import LOADERS, Idle
from kernellab.analysis.replay import Interval, Change, Replay, merged
from kernellab.analysis.waits import Site, Waits
from kernellab.traces.trace import Column, Rows
from kernellab.traceview.places import UNKNOWN_PLACE, Place, Places
from kernellab.traceview.profiler_overhead import ProfilerOverhead
from kernellab.traceview.row_tree import take
from kernellab.traceview.view import View

Line = tuple[str | None, int | None]

_SITES = 12  # lines of each kind, the dearest, for which steps are replayed
# Of a step. A little of a loader or of Python is in every program; a wait or a chain is somebody's choice.
_LEADS = {"wait": 0.02, "copy": 0.02, "fusion": 0.05, "loader": 0.05, "host": 0.1}
_ALSO = 0.005  # of a step: less is not said of what a line does besides
_SLOWER = 1.1  # times the GPU's time: nearer than that, neither waits for the other
_MOST = 0.5  # of the CPU's time, that first calls take
_LOOKED_AT = 400  # operators, the dearest, until one has shapes
_BESIDE = 4  # times a wait's own: more work on its line than that is not there for the wait
_HOST_CALLS = 4000  # the longest, whose lines are analysis for
_HOST_SHARE = 0.002  # of a step: shorter calls are not analysis at one by one
# Of a step's kernels: what a call may launch and still be there for its wait. Printing a tensor takes twenty.
_FEW_LAUNCHES, _SOME_LAUNCHES = 0.05, 0.5
_WORK = ("backward", "step", "")
_WORKERS = r"_MultiProcessingDataLoaderIter|utils/data/dataloader\.py\(\d+\): _(try_)?get_data"


@dataclass(frozen=True)
class Cause:
    """`kind`: wait, copy, loader, host, fusion, launch or setup. A step of `step_ns` would be `gain_ns` shorter
    `otherwise`."""

    kind: str
    place: Place
    change: Change
    step_ns: float
    gain_ns: float
    evidence: dict[str, Any] = field(default_factory=dict)
    also: tuple[Cause, ...] = ()  # what else its line does, gone with it; the dearest first
    stepping: bool = True  # or the step is all there is

    @property
    def share(self) -> float:
        return self.gain_ns / self.step_ns if self.step_ns else 0.0

    @property
    def leads(self) -> bool:
        """Whether it is a line's fault, and worth changing before anything else."""
        return self.share >= _LEADS.get(self.kind, 1.0)


@dataclass(frozen=True)
class Analysis:
    """What the causes are found in."""

    view: View
    places: Places
    waits: Waits
    idle: Idle
    chains: Sequence[Chain]
    replay: Replay

    @property
    def steps(self) -> int:
        return self.view.steps.count

    def cause(self, kind: str, place: Place, change: Change, evidence: dict[str, Any]) -> Cause:
        step_ns = self.replay.step_ns
        gain_ns = max(step_ns - self.replay.step_with(change), 0.0)
        return Cause(kind, place, change, step_ns, gain_ns, evidence, stepping=self.view.steps.marked)


def found(analysis: Analysis) -> list[Cause]:
    """In no order."""
    quiet = _quiet_by_line(analysis)
    # What a line that waits does besides is of the wait: print(loss.item()) is two calls.
    lines = [*_by_line(analysis, [*_waits(analysis, quiet), *_host(analysis, quiet)]), *_fusion(analysis)]
    mended = Change()
    for cause in lines:
        if cause.leads:
            mended = mended.also(cause.change)
    return [*lines, *_launch(analysis, mended)]


def _by_line(analysis: Analysis, causes: Sequence[Cause]) -> Iterator[Cause]:
    """Causes of one line as one: who rewrites `next(loader).to("cuda")` is rid of both."""
    groups: dict[Line | int, list[Cause]] = defaultdict(list)
    for at, cause in enumerate(causes):
        place = cause.place
        groups[(place.file, place.line) if place.exact else at].append(cause)
    for group in groups.values():
        first, *others = sorted(group, key=lambda one: -one.gain_ns)
        if others:
            gone = functools.reduce(Change.also, (one.otherwise for one in others), first.change)
            together = analysis.cause(first.kind, first.place, gone, first.evidence)
            worth = tuple(one for one in others if one.share >= _ALSO)
            yield replace(together, also=worth)
        else:
            yield first


def _waits(analysis: Analysis, quiet: dict[Line, list[tuple[int, Place]]]) -> Iterator[Cause]:
    idle, rows = analysis.idle.after_wait_ns, analysis.waits.rows
    for site in analysis.waits.sites[:_SITES]:
        otherwise = Change(unblocked=frozenset(site.rows.tolist()))
        if _only_reads(analysis, site):
            otherwise = Change(gone=_with_the_line(analysis, site, quiet))
        yield analysis.cause(
            "copy" if _is_copy(analysis, site) else "wait",
            site.place,
            change,
            {
                "count": site.times,
                "per_step": site.times / analysis.steps,
                "wait_us": site.wait_ns / analysis.steps / 1e3,
                "idle_us": int(idle[np.isin(rows, site.rows)].sum()) / analysis.steps / 1e3,
                "to_gpu": site.to_gpu,
                "cuda": list(site.calls),
            },
        )


def _only_reads(analysis: Analysis, site: Site) -> bool:
    """Whether the call is there for its wait (print, item, cpu), and not the program's work with a wait in it."""
    if not len(site.python):
        return True
    asked = float(analysis.idle.launches_in[site.python].mean())
    share = asked / max(int(analysis.view.gpu_in_steps.sum()) / analysis.steps, 1.0)
    works = site.place.call in _WORK or bool(analysis.idle.modules_in[site.python].any())
    return asked <= 1 or share <= (_FEW_LAUNCHES if works else _SOME_LAUNCHES)


def _with_the_line(analysis: Analysis, site: Site, quiet: dict[Line, list[tuple[int, Place]]]) -> list[Interval]:
    """A wait's own time and what its line does besides; where that is far more, it is a cause of its own."""
    own, line = _stretches(analysis, site), (site.place.file, site.place.line)
    if not site.place.exact or line not in quiet:
        return own
    beside = _spans(analysis, [position for position, _ in quiet[line]])
    if _length(beside) > _BESIDE * _length(own):
        return own
    del quiet[line]
    return merged([*own, *beside])


def _length(spans: Sequence[Interval]) -> int:
    return sum(end - begin for begin, end in spans)


def _is_copy(analysis: Analysis, site: Site) -> bool:
    """Whether a site's time is a tensor's copying, not the waiting for a number."""
    view = analysis.view
    started = np.flatnonzero(np.isin(view.calls, site.rows))
    sizes = [int(view.trace.details_of(int(row)).get("bytes", 0)) for row in view.gpu[started[:64]]]
    return bool(sizes) and max(sizes) > 64


def _stretches(analysis: Analysis, site: Site) -> list[Interval]:
    """The CPU's time that goes with a wait: the call of the user's line, else the operator, else the wait."""
    nest = analysis.places.nest
    if len(site.python):
        return merged(list(zip(nest.begin[site.python].tolist(), nest.end[site.python].tolist(), strict=True)))
    trace, operators = analysis.view.trace, analysis.view.operators
    at = operators.around(trace.lane[site.rows], trace.begin[site.rows])
    outer = take(operators.outermost, at)
    begin = np.where(outer >= 0, take(operators.begin, outer), trace.begin[site.rows])
    end = np.where(outer >= 0, take(operators.end, outer), analysis.view.end[site.rows])
    return merged(list(zip(begin.tolist(), end.tolist(), strict=True)))


def _spans(analysis: Analysis, positions: Sequence[int]) -> list[Interval]:
    nest = analysis.places.nest
    return merged([(int(nest.begin[p]), int(nest.end[p])) for p in positions])


def _quiet_by_line(analysis: Analysis) -> dict[Line, list[tuple[int, Place]]]:
    """Calls of the user's code that ask nothing of the GPU, and loaders."""
    groups: dict[Line, list[tuple[int, Place]]] = defaultdict(list)
    positions = _quiet_calls(analysis).tolist()
    for position, place in zip(positions, analysis.places.calls(positions), strict=True):
        groups[place.file, place.line].append((position, place))
    return groups


def _host(analysis: Analysis, quiet: dict[Line, list[tuple[int, Place]]]) -> Iterator[Cause]:
    nest = analysis.places.nest
    loader = analysis.view.named(LOADERS)[nest.name]
    workers = bool(analysis.view.named(_WORKERS)[analysis.view.trace.name].any())
    spans = [(found, _spans(analysis, [p for p, _ in found])) for found in quiet.values()]
    spans.sort(key=lambda one: -_length(one[1]))
    for found, gone in spans[:_SITES]:
        _, place = max(found, key=lambda one: int(nest.duration[one[0]]))
        loading = _length(_spans(analysis, [p for p, _ in found if loader[p]]))
        loads = 2 * loading > _length(gone)
        yield analysis.cause(
            "loader" if loads else "host",
            place,
            Change(gone=gone),
            {
                "count": len(found),
                "per_step": len(found) / analysis.steps,
                "cpu_us": _length(gone) * analysis.replay.watch.scale / analysis.steps / 1e3,
                **({"workers": workers, "on_gpu": bool(len(analysis.view.gpu))} if loads else {}),
            },
        )


def _quiet_calls(analysis: Analysis) -> Rows:
    view, nest = analysis.view, analysis.places.nest
    if not len(nest):
        return np.zeros(0, dtype=np.int64)
    waits = nest.totals(_moments(analysis, analysis.waits.rows))
    loader = view.named(LOADERS)[nest.name]
    outermost = loader & (take(nest.nearest(loader), nest.parent) < 0) & (analysis.idle.launches_in == 0)
    fits = ((analysis.idle.silent & ~loader) | outermost) & (waits == 0) & (nest.lane == view.main)
    fits &= (nest.begin >= view.steps.first_ns) & (nest.begin < view.steps.asked_ns)
    fits &= nest.duration >= _HOST_SHARE * view.steps.span_ns / analysis.steps
    positions = np.flatnonzero(fits)
    return np.sort(positions[np.argsort(-nest.duration[positions], kind="stable")[:_HOST_CALLS]])


def _moments(analysis: Analysis, rows: Rows) -> Column:
    """How many of these rows each Python call is the innermost around."""
    trace, nest = analysis.view.trace, analysis.places.nest
    at = analysis.places.around(trace.lane[rows], trace.begin[rows])
    return np.bincount(at[at >= 0], minlength=len(nest)).astype(np.int64)


def _fusion(analysis: Analysis) -> Iterator[Cause]:
    """Chains of one function together, its backward's with its forward's."""
    groups: dict[tuple[str | None, str | None], list[Chain]] = defaultdict(list)
    for chain in analysis.chains:
        groups[chain.place.file, chain.place.function].append(chain)
    dearest = sorted(groups.values(), key=lambda chains: -sum(len(c.at) * len(c.kernels) for c in chains))[:_SITES]
    for chains in dearest:
        gone: list[Interval] = []
        takes: dict[int, int] = {}
        for chain in chains:
            for at in chain.at:
                gone += _between(analysis.view, at)
                rows = analysis.view.gpu[at].tolist()
                takes |= {rows[0]: int(chain.fused_ns), **dict.fromkeys(rows[1:], 0)}
        first = max(chains, key=lambda chain: len(chain.kernels))
        yield analysis.cause(
            "fusion",
            first.place,
            Change(gone=merged(gone), takes=takes),
            {
                "kernels": sum(len(c.kernels) * len(c.at) for c in chains) / analysis.steps,
                "fused": sum(len(c.at) for c in chains) / analysis.steps,
                "operators": list(first.operators),
                "shape": list(first.shape),
                "moved_bytes": sum(c.moved * len(c.at) for c in chains) / analysis.steps,
                "fewest_bytes": sum(c.fewest * len(c.at) for c in chains) / analysis.steps,
                "gpu_gain_us": sum(c.gain_ns * len(c.at) for c in chains) / analysis.steps / 1e3,
            },
        )


def _between(view: View, at: Rows) -> list[Interval]:
    """The CPU's time from the end of a chain's first operator to the end of its last."""
    nest, inner = view.operators, view.gpu_operators[at[[0, -1]]]
    outer = nest.outermost[inner]
    first, last = (outer if outer[0] != outer[1] else inner).tolist()
    begin, end = int(nest.end[first]), int(nest.end[last])
    return [(begin, end)] if end > begin else []


def _launch(analysis: Analysis, mended: Change) -> Iterator[Cause]:
    """The CPU asks for work more slowly than the GPU does it, once lines at fault are mended."""
    view, replay = analysis.view, analysis.replay
    if not len(view.gpu):
        return
    otherwise = mended.also(Change(free=True))
    cpu_ns = replay.step_with(mended.also(Change(instant=True)))
    gpu_ns, step_ns = replay.step_with(change), replay.step_with(mended)
    if not is_launch_bound(replay, mended, replay.watch):
        return
    first = None if view.steps.marked else first_calls(view, analysis.waits.rows)
    if first and first.setup_ns > _MOST * cpu_ns:
        row = int(view.operators.rows[first.dearest])
        evidence = {"cpu_us": cpu_ns / 1e3, "setup_us": first.setup_ns / 1e3, "operator": view.trace.name_of(row)}
        gain_ns = min(first.setup_ns, max(step_ns - gpu_ns, 0.0))
        place = analysis.places.of(np.array([row]))[0]
        yield Cause("setup", place, change, step_ns, gain_ns, evidence, stepping=False)
    else:
        evidence = {
            "kernels": int(view.gpu_in_steps.sum()) / analysis.steps,
            "cpu_us": cpu_ns / 1e3,
            "gpu_us": replay.work_ns(mended) / 1e3,
            "sure": is_launch_bound(replay, mended, replay.dearest),
            "shapes": _largest_product(view),
        }
        gain_ns = max(step_ns - gpu_ns, 0.0)
        place, stepping = _busiest_line(analysis), view.steps.marked
        yield Cause("launch", place, change, step_ns, gain_ns, evidence, stepping=stepping)


def is_launch_bound(replay: Replay, mended: Change, watch: ProfilerOverhead) -> bool:
    """Whether the CPU is the slower of the two, the profiler having cost so much."""
    cpu_ns = replay.step_with(mended.also(Change(instant=True)), watch)
    return cpu_ns > _SLOWER * replay.step_with(mended.also(Change(free=True)), watch)


def _busiest_line(analysis: Analysis) -> Place:
    """The user's call that asks for most: a module's, if there is one."""
    nest, places = analysis.places.nest, analysis.places
    if not len(nest):
        return UNKNOWN_PLACE
    first = np.flatnonzero((places.made == np.arange(len(nest))) & (analysis.idle.launches_in > 0))
    modules = first[np.isin(nest.rows[first], analysis.view.modules.rows)]
    chosen = modules if len(modules) else first
    if not len(chosen):
        return UNKNOWN_PLACE
    return places.calls([int(chosen[analysis.idle.launches_in[chosen].argmax()])])[0]


def _largest_product(view: View) -> list[Any]:
    """The shapes given to the operator the GPU spent most time on."""
    known = (view.gpu_operators >= 0) & view.gpu_counted
    own = np.bincount(view.gpu_operators[known], weights=view.gpu_ns[known], minlength=len(view.operators))
    for position in np.argsort(-own, kind="stable")[:_LOOKED_AT].tolist():
        shapes = view.trace.details_of(int(view.operators.rows[position])).get("shapes")
        listed = [shape for shape in shapes if isinstance(shape, list)] if isinstance(shapes, list) else []
        plain = [shape for shape in listed if shape and all(isinstance(size, int) for size in shape)]
        if plain:
            return plain
    return []
