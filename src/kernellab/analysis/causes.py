"""What makes a step slow: each cause with its line and its gain, how much shorter a replayed step is without it."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

import numpy as np

from kernellab.analysis import intervals
from kernellab.analysis.first_calls import measure_first_calls
from kernellab.analysis.fusion import Chain
from kernellab.analysis.idle import LOADERS, IdleTime
from kernellab.analysis.intervals import Interval
from kernellab.analysis.replay import Change, Replay
from kernellab.analysis.waits import Waits, WaitSite
from kernellab.findings.place import UNKNOWN_PLACE, Place
from kernellab.traces.trace import Rows
from kernellab.traceview.places import Places
from kernellab.traceview.profiler_overhead import ProfilerOverhead
from kernellab.traceview.row_tree import take
from kernellab.traceview.view import View

Line = tuple[str | None, int | None]
Positions = list[int]  # of Python calls

_MAX_SITES = 12  # lines of each kind for which steps are replayed, the most expensive first
# Smallest share of a step at which a cause is assumed fixed before launches are examined. Every program has some loader
# and Python time; a wait or a chain of kernels is a choice of the author.
_FIXED_BEFORE_LAUNCHES = {"wait": 0.02, "copy": 0.02, "fusion": 0.05, "loader": 0.05, "host": 0.1}
_SAME_LINE = 0.005  # share of a step: a smaller further cause of a line is not reported
_SLOWER = 1.1  # times the GPU's time: below that, neither waits for the other
_MOST = 0.5  # of the CPU's time: if first calls take more, they are the cause
_MAX_SEARCHED = 400  # operators searched for shapes, the most expensive first
_BESIDE = 4  # times the wait's own time: more other work on its line is a separate cause
_MAX_HOST_CALLS = 4000  # located by line, the longest first
_MIN_HOST_SHARE = 0.002  # of a step: shorter calls are not examined
_SCALAR_BYTES = 64  # a larger copy moves a tensor; a smaller one reads a number
# A call that launches at most this share of a step's kernels exists for its wait. Printing a tensor launches twenty.
_FEW_LAUNCHES, _SOME_LAUNCHES = 0.05, 0.5
_WORK = ("backward", "step", "")
_WORKERS = r"_MultiProcessingDataLoaderIter|utils/data/dataloader\.py\(\d+\): _(try_)?get_data"


class CauseEvidence(TypedDict, total=False):
    """The measurements behind a cause; which keys are present depends on its kind. Times are per step."""

    # wait, copy, loader, host
    count: int
    per_step: float
    # wait, copy
    wait_us: float
    idle_us: float  # of the GPU, after the wait
    to_gpu: bool
    cuda: list[str]
    # loader, host, launch, setup
    cpu_us: float
    # loader
    workers: bool
    on_gpu: bool
    # fusion, launch
    kernels: float
    # fusion
    fused: float
    operators: list[str]
    shape: list[int]
    moved_bytes: float
    fewest_bytes: float
    gpu_gain_us: float
    # launch
    gpu_us: float
    sure: bool  # launch-bound even with the highest plausible profiler overhead
    shapes: list[list[int]]
    # setup
    setup_us: float
    operator: str


@dataclass(frozen=True)
class Cause:
    """A step of `step_ns` is `gain_ns` shorter with `change`.

    `kind` is wait, copy, loader, host, fusion, launch or setup.
    """

    kind: str
    place: Place
    change: Change
    step_ns: float
    gain_ns: float
    evidence: CauseEvidence = field(default_factory=CauseEvidence)
    same_line: tuple[Cause, ...] = ()  # other causes of the line, removed with it; the most expensive first
    after: tuple[Cause, ...] = ()  # the gain assumes that these are fixed
    has_steps: bool = True  # False: the trace has no steps, and `step_ns` is its whole time

    @property
    def share(self) -> float:
        return self.gain_ns / self.step_ns if self.step_ns else 0.0


@dataclass(frozen=True)
class Analysis:
    """The results from which causes are found."""

    view: View
    places: Places
    waits: Waits
    idle: IdleTime
    chains: Sequence[Chain]
    replay: Replay

    @property
    def steps(self) -> int:
        return self.view.steps.count

    def cause(self, kind: str, place: Place, change: Change, evidence: CauseEvidence) -> Cause:
        step_ns = self.replay.step_ns
        gain_ns = max(step_ns - self.replay.step_ns_with(change), 0.0)
        return Cause(kind, place, change, step_ns, gain_ns, evidence, has_steps=self.view.steps.marked)


def find_causes(analysis: Analysis) -> list[Cause]:
    """All causes, in no order."""
    host_calls = _host_calls_by_line(analysis)
    # Other work on a line that waits belongs to the wait: print(loss.item()) is two calls.
    causes = [*_find_waits(analysis, host_calls), *_find_host_work(analysis, host_calls)]
    lines = [*_merge_by_line(analysis, causes), *_find_fusion(analysis)]
    fixed = tuple(cause for cause in lines if cause.share >= _FIXED_BEFORE_LAUNCHES.get(cause.kind, 1.0))
    change = functools.reduce(Change.combine, (cause.change for cause in fixed), Change())
    return [*lines, *(replace(cause, after=fixed) for cause in _find_launch_bound(analysis, change))]


def _merge_by_line(analysis: Analysis, causes: Sequence[Cause]) -> Iterator[Cause]:
    """Merges the causes of one line: rewriting `next(loader).to("cuda")` removes both."""
    groups: dict[Line | int, list[Cause]] = defaultdict(list)
    for at, cause in enumerate(causes):
        place = cause.place
        groups[(place.file, place.line) if place.exact else at].append(cause)
    for group in groups.values():
        first, *others = sorted(group, key=lambda cause: -cause.gain_ns)
        if others:
            change = functools.reduce(Change.combine, (cause.change for cause in others), first.change)
            merged = analysis.cause(first.kind, first.place, change, first.evidence)
            yield replace(merged, same_line=tuple(cause for cause in others if cause.share >= _SAME_LINE))
        else:
            yield first


# Waits and copies


def _find_waits(analysis: Analysis, host_calls: dict[Line, Positions]) -> Iterator[Cause]:
    """Finds waits, and removes from `host_calls` the lines whose other work belongs to a wait."""
    idle_ns, rows = analysis.idle.after_wait_ns, analysis.waits.rows
    for site in analysis.waits.sites[:_MAX_SITES]:
        change = Change(unblocked=frozenset(site.rows.tolist()))
        if _exists_for_wait(analysis, site):
            change = Change(removed=_wait_with_line(analysis, site, host_calls))
        yield analysis.cause(
            "copy" if _is_copy(analysis, site) else "wait",
            site.place,
            change,
            {
                "count": site.count,
                "per_step": site.count / analysis.steps,
                "wait_us": site.wait_ns / analysis.steps / 1e3,
                "idle_us": int(idle_ns[np.isin(rows, site.rows)].sum()) / analysis.steps / 1e3,
                "to_gpu": site.to_gpu,
                "cuda": list(site.cuda_calls),
            },
        )


def _exists_for_wait(analysis: Analysis, site: WaitSite) -> bool:
    """Whether the call exists for its wait (print, item, cpu), rather than being work that contains a wait."""
    if not len(site.python):
        return True
    launches = float(analysis.idle.launches_in[site.python].mean())
    share = launches / max(int(analysis.view.gpu_in_steps.sum()) / analysis.steps, 1.0)
    is_work = site.place.call in _WORK or bool(analysis.idle.modules_in[site.python].any())
    return launches <= 1 or share <= (_FEW_LAUNCHES if is_work else _SOME_LAUNCHES)


def _wait_with_line(analysis: Analysis, site: WaitSite, host_calls: dict[Line, Positions]) -> list[Interval]:
    """The wait's own time and that of its line's other calls, unless those are a separate cause."""
    own, line = _wait_intervals(analysis, site), (site.place.file, site.place.line)
    if not site.place.exact or line not in host_calls:
        return own
    beside = _call_intervals(analysis, host_calls[line])
    if intervals.length(beside) > _BESIDE * intervals.length(own):
        return own
    del host_calls[line]
    return intervals.merge([*own, *beside])


def _is_copy(analysis: Analysis, site: WaitSite) -> bool:
    """Whether a site's time goes to copying a tensor, rather than to waiting for a number."""
    view = analysis.view
    launched = np.flatnonzero(np.isin(view.gpu_calls, site.rows))
    sizes = [view.trace.details_of(int(row)).get("bytes", 0) for row in view.gpu_rows[launched[:64]]]
    return bool(sizes) and max(sizes) > _SCALAR_BYTES


def _wait_intervals(analysis: Analysis, site: WaitSite) -> list[Interval]:
    """The CPU time of a wait: the user's call around it, else the operator, else the blocking call."""
    if len(site.python):
        return _call_intervals(analysis, site.python.tolist())
    trace, operators = analysis.view.trace, analysis.view.operators
    at = operators.around(trace.lane[site.rows], trace.begin[site.rows])
    outer = take(operators.outermost, at)
    begin = np.where(outer >= 0, take(operators.begin, outer), trace.begin[site.rows])
    end = np.where(outer >= 0, take(operators.end, outer), analysis.view.end[site.rows])
    return intervals.merge(list(zip(begin.tolist(), end.tolist(), strict=True)))


def _call_intervals(analysis: Analysis, positions: Positions) -> list[Interval]:
    tree = analysis.places.tree
    return intervals.merge(list(zip(tree.begin[positions].tolist(), tree.end[positions].tolist(), strict=True)))


# Loaders and other work of the CPU


def _host_calls_by_line(analysis: Analysis) -> dict[Line, Positions]:
    """The user's calls that launch nothing, and loaders, by the line that makes them."""
    groups: dict[Line, Positions] = defaultdict(list)
    positions = _host_calls(analysis).tolist()
    for position, place in zip(positions, analysis.places.locate_calls(positions), strict=True):
        groups[place.file, place.line].append(position)
    return groups


def _host_calls(analysis: Analysis) -> Rows:
    view, tree = analysis.view, analysis.places.tree
    if not len(tree):
        return np.zeros(0, dtype=np.int64)
    waits, trace = analysis.waits.rows, view.trace
    at = analysis.places.python_at(trace.lane[waits], trace.begin[waits])
    waits_in = tree.totals(np.bincount(at[at >= 0], minlength=len(tree)).astype(np.int64))
    is_loader = view.names_matching(LOADERS)[tree.name]
    outermost_loader = is_loader & (take(tree.nearest(is_loader), tree.parent) < 0) & (analysis.idle.launches_in == 0)
    fits = ((analysis.idle.launches_nothing & ~is_loader) | outermost_loader) & (waits_in == 0)
    fits &= (tree.lane == view.main_lane) & (tree.begin >= view.steps.begin_ns) & (tree.begin < view.steps.cpu_end_ns)
    fits &= tree.duration >= _MIN_HOST_SHARE * view.steps.span_ns / analysis.steps
    positions = np.flatnonzero(fits)
    return np.sort(positions[np.argsort(-tree.duration[positions], kind="stable")[:_MAX_HOST_CALLS]])


def _find_host_work(analysis: Analysis, host_calls: dict[Line, Positions]) -> Iterator[Cause]:
    tree = analysis.places.tree
    is_loader = analysis.view.names_matching(LOADERS)[tree.name]
    workers = bool(analysis.view.names_matching(_WORKERS)[analysis.view.trace.name].any())
    lines = [(positions, _call_intervals(analysis, positions)) for positions in host_calls.values()]
    lines.sort(key=lambda line: -intervals.length(line[1]))
    for positions, removed in lines[:_MAX_SITES]:
        longest = max(positions, key=lambda position: int(tree.duration[position]))
        loading = _call_intervals(analysis, [position for position in positions if is_loader[position]])
        evidence: CauseEvidence = {
            "count": len(positions),
            "per_step": len(positions) / analysis.steps,
            "cpu_us": intervals.length(removed) * analysis.replay.overhead.scale / analysis.steps / 1e3,
        }
        loads = 2 * intervals.length(loading) > intervals.length(removed)
        if loads:
            evidence |= {"workers": workers, "on_gpu": bool(len(analysis.view.gpu_rows))}
        (place,) = analysis.places.locate_calls([longest])
        yield analysis.cause("loader" if loads else "host", place, Change(removed=removed), evidence)


# Chains of kernels


def _find_fusion(analysis: Analysis) -> Iterator[Cause]:
    """Finds chains, grouped by function; those of its backward belong to the function too."""
    groups: dict[tuple[str | None, str | None], list[Chain]] = defaultdict(list)
    for chain in analysis.chains:
        groups[chain.place.file, chain.place.function].append(chain)
    most_kernels = sorted(groups.values(), key=lambda chains: -sum(len(c.at) * len(c.kernels) for c in chains))
    for chains in most_kernels[:_MAX_SITES]:
        removed: list[Interval] = []
        durations: dict[int, int] = {}
        for chain in chains:
            for at in chain.at:
                removed += _between_operators(analysis.view, at)
                rows = analysis.view.gpu_rows[at].tolist()
                durations |= {rows[0]: int(chain.fused_ns), **dict.fromkeys(rows[1:], 0)}
        longest = max(chains, key=lambda chain: len(chain.kernels))
        yield analysis.cause(
            "fusion",
            longest.place,
            Change(removed=intervals.merge(removed), durations=durations),
            {
                "kernels": sum(len(c.kernels) * len(c.at) for c in chains) / analysis.steps,
                "fused": sum(len(c.at) for c in chains) / analysis.steps,
                "operators": list(longest.operators),
                "shape": list(longest.shape),
                "moved_bytes": sum(c.moved_bytes * len(c.at) for c in chains) / analysis.steps,
                "fewest_bytes": sum(c.fewest_bytes * len(c.at) for c in chains) / analysis.steps,
                "gpu_gain_us": sum(c.gain_ns * len(c.at) for c in chains) / analysis.steps / 1e3,
            },
        )


def _between_operators(view: View, at: Rows) -> list[Interval]:
    """The CPU time from the end of a chain's first operator to the end of its last."""
    tree, inner = view.operators, view.gpu_operators[at[[0, -1]]]
    outer = tree.outermost[inner]
    first, last = (outer if outer[0] != outer[1] else inner).tolist()
    begin, end = int(tree.end[first]), int(tree.end[last])
    return [(begin, end)] if end > begin else []


# Launches


def _find_launch_bound(analysis: Analysis, fixed: Change) -> Iterator[Cause]:
    """Finds out whether the CPU launches work more slowly than the GPU does it, even without the causes in `fixed`."""
    view, replay = analysis.view, analysis.replay
    if not len(view.gpu_rows) or not is_launch_bound(replay, fixed, replay.overhead):
        return
    change = fixed.combine(Change(free_cpu=True))
    cpu_ns = replay.step_ns_with(fixed.combine(Change(instant_gpu=True)))
    gpu_ns, step_ns = replay.step_ns_with(change), replay.step_ns_with(fixed)
    gain_ns = max(step_ns - gpu_ns, 0.0)
    first = None if view.steps.marked else measure_first_calls(view, analysis.waits.rows)
    if first and first.setup_ns > _MOST * cpu_ns:
        row = int(view.operators.rows[first.largest])
        (place,) = analysis.places.locate_rows(np.array([row]))
        setup: CauseEvidence = {
            "cpu_us": cpu_ns / 1e3,
            "setup_us": first.setup_ns / 1e3,
            "operator": view.trace.name_of(row),
        }
        yield Cause("setup", place, change, step_ns, min(first.setup_ns, gain_ns), setup, has_steps=False)
        return
    evidence: CauseEvidence = {
        "kernels": int(view.gpu_in_steps.sum()) / analysis.steps,
        "cpu_us": cpu_ns / 1e3,
        "gpu_us": replay.gpu_work_ns(fixed) / 1e3,
        "sure": is_launch_bound(replay, fixed, replay.most_overhead),
        "shapes": _largest_shapes(view),
    }
    place = _busiest_line(analysis)
    yield Cause("launch", place, change, step_ns, gain_ns, evidence, has_steps=view.steps.marked)


def is_launch_bound(replay: Replay, fixed: Change, overhead: ProfilerOverhead) -> bool:
    """Whether the CPU is slower than the GPU, assuming this profiler overhead."""
    cpu_ns = replay.step_ns_with(fixed.combine(Change(instant_gpu=True)), overhead)
    return cpu_ns > _SLOWER * replay.step_ns_with(fixed.combine(Change(free_cpu=True)), overhead)


def _busiest_line(analysis: Analysis) -> Place:
    """The user's call that launches most; a call of a module, if there is one."""
    places, tree = analysis.places, analysis.places.tree
    if not len(tree):
        return UNKNOWN_PLACE
    launches = analysis.idle.launches_in
    calls = np.flatnonzero((places.user_call == np.arange(len(tree))) & (launches > 0))
    modules = calls[np.isin(tree.rows[calls], analysis.view.modules.rows)]
    candidates = modules if len(modules) else calls
    if not len(candidates):
        return UNKNOWN_PLACE
    return places.locate_calls([int(candidates[launches[candidates].argmax()])])[0]


def _largest_shapes(view: View) -> list[list[int]]:
    """The input shapes of the operator the GPU spent most time on."""
    counted = (view.gpu_operators >= 0) & view.gpu_counted
    own = np.bincount(view.gpu_operators[counted], weights=view.gpu_ns[counted], minlength=len(view.operators))
    for position in np.argsort(-own, kind="stable")[:_MAX_SEARCHED].tolist():
        recorded = view.trace.details_of(int(view.operators.rows[position])).get("shapes")
        shapes = []
        for shape in recorded if isinstance(recorded, list) else []:
            sizes = [size for size in shape if isinstance(size, int)] if isinstance(shape, list) else []
            if sizes and len(sizes) == len(shape):
                shapes.append(sizes)
        if shapes:
            return shapes
    return []
