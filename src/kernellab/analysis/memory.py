"""Memory: the peak, what held it, how it grew, and the largest allocations with their stacks."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from kernellab.findings.place import UNKNOWN_PLACE
from kernellab.traces.trace import Column, Mask, Rows
from kernellab.traceview.places import Places
from kernellab.traceview.row_tree import sum_by_key, take
from kernellab.traceview.view import View

_POINTS = 400  # of the timeline
_MAX_LISTED = 10  # allocations
_NEVER = np.iinfo(np.int64).max
# Categories by what was running when memory was allocated; the first that fits.
_OPTIMIZER = r"^Optimizer\.step#|^optimizer_step$"
_PARAMETERS = r"^define_model$"
_INPUTS = r"^define_input$|DataLoader"
_CATEGORIES = ("optimizer", "gradients and backward", "parameters", "inputs", "activations", "other")
_BEFORE = "before the trace began (parameters, states)"


class CategoryDocument(TypedDict):
    name: str
    bytes: int


class ModuleMemoryDocument(TypedDict):
    path: list[str]
    bytes: int


class AllocationDocument(TypedDict):
    bytes: int
    at_us: float
    freed_us: float | None
    operator: str | None
    file: str | None
    line: int | None
    stack: list[str]


class DevicePeakDocument(TypedDict):
    device: int
    peak_bytes: int


class MemoryDocument(TypedDict, total=False):
    """Empty if the trace contains no allocations."""

    device: int
    peak_bytes: int
    peak_at_us: float
    categories: list[CategoryDocument]
    modules: list[ModuleMemoryDocument]
    timeline: list[list[float]]  # microseconds and bytes
    largest: list[AllocationDocument]
    devices: list[DevicePeakDocument]


def document(view: View, places: Places) -> MemoryDocument:
    """The memory of the GPU with the highest peak; without a GPU, of the host."""
    memory = view.trace.memory
    if not len(memory.at):
        return {}
    peaks = {int(device): int(memory.total[memory.device == device].max()) for device in np.unique(memory.device)}
    gpus = {device: peak for device, peak in peaks.items() if device >= 0}
    device = max(gpus or peaks, key=lambda candidate: peaks[candidate])
    events = np.flatnonzero(memory.device == device)
    peak = int(events[memory.total[events].argmax()])
    freed_at = _freed_at(view, events)
    allocations = events[memory.bytes[events] > 0]
    live = allocations[(memory.at[allocations] <= memory.at[peak]) & (freed_at[allocations] > memory.at[peak])]
    largest = allocations[np.argsort(-memory.bytes[allocations], kind="stable")[:_MAX_LISTED]]
    return {
        "device": device,
        "peak_bytes": int(memory.total[peak]),
        "peak_at_us": round(int(memory.at[peak]) / 1e3, 3),
        "categories": _by_category(_categories(view, live), memory.bytes[live], int(memory.total[peak])),
        "modules": _by_module(view, _modules(view, live), memory.bytes[live]),
        "timeline": _timeline(memory.at[events], memory.total[events]),
        "largest": [_allocation(view, places, int(row), freed_at) for row in largest.tolist()],
        "devices": [{"device": number, "peak_bytes": total} for number, total in sorted(peaks.items())],
    }


def _freed_at(view: View, events: Rows) -> Column:
    """When each allocation was freed: at the next event of its address, if that is a free."""
    memory = view.trace.memory
    freed_at = np.full(len(memory.at), _NEVER, dtype=np.int64)
    order = events[np.lexsort((events, memory.address[events]))]
    following = order[1:]
    pairs = (memory.address[order[:-1]] == memory.address[following]) & (memory.bytes[following] < 0)
    freed_at[order[:-1][pairs]] = memory.at[following[pairs]]
    return freed_at


def _categories(view: View, events: Rows) -> Column:
    """The position of each allocation's category in _CATEGORIES."""
    memory, ranges = view.trace.memory, view.ranges
    lane, at = memory.lane[events], memory.at[events]
    around = view.around_or_main(ranges, lane, at)

    def within(pattern: str) -> Mask:
        return np.asarray(take(ranges.nearest(view.names_matching(pattern)[ranges.name]), around) >= 0)

    backward = take(view.backward_node, view.operators.around(lane, at)) >= 0
    forward = within("(?i)forward") | (view.modules.around(lane, at) >= 0)
    tests = [within(_OPTIMIZER), backward, within(_PARAMETERS), within(_INPUTS), forward]
    return np.asarray(np.select(tests, list(range(len(tests))), len(tests)), dtype=np.int64)


def _by_category(category: Column, sizes: Column, peak: int) -> list[CategoryDocument]:
    totals = sum_by_key(category, sizes, len(_CATEGORIES)).tolist()
    rows = [*zip(_CATEGORIES, totals, strict=True), (_BEFORE, max(peak - sum(totals), 0))]
    documents: list[CategoryDocument] = [{"name": name, "bytes": size} for name, size in rows if size]
    return sorted(documents, key=lambda row: -row["bytes"])


def _modules(view: View, events: Rows) -> Rows:
    """The module an allocation was made in, or whose backward it was made in."""
    lane, at = view.trace.memory.lane[events], view.trace.memory.at[events]
    modules = view.modules.around(lane, at)
    return np.where(modules >= 0, modules, view.around_forward(view.modules, view.operators.around(lane, at)))


def _by_module(view: View, module: Rows, sizes: Column) -> list[ModuleMemoryDocument]:
    numbers, paths = view.modules.paths(view.modules.name)
    inside = module >= 0
    totals = sum_by_key(numbers[module[inside]], sizes[inside], len(paths))
    return [
        {"path": [view.trace.names[name] for name in paths[number]], "bytes": int(totals[number])}
        for number in np.argsort(-totals, kind="stable").tolist()
        if totals[number]
    ]


def _timeline(at: Column, total: Column) -> list[list[float]]:
    """Microseconds and bytes; of many points, the highest of each span."""
    if len(at) > _POINTS:
        starts = np.linspace(0, len(at), _POINTS, endpoint=False).astype(np.int64)
        spans = zip(starts, [*starts[1:], len(at)], strict=True)
        highest = [int(total[first:past].argmax()) + first for first, past in spans]
        at, total = at[highest], total[highest]
    return [[round(int(moment) / 1e3, 3), int(size)] for moment, size in zip(at, total, strict=True)]


def _allocation(view: View, places: Places, row: int, freed_at: Column) -> AllocationDocument:
    memory, operators = view.trace.memory, view.operators
    lane, at = memory.lane[[row]], memory.at[[row]]
    python = int(places.python_at(lane, at)[0])
    place = places.locate_moment(python, int(at[0])) if python >= 0 else UNKNOWN_PLACE
    innermost = int(operators.around(lane, at)[0])
    name = int(operators.name[operators.outermost[innermost]]) if innermost >= 0 else None
    return {
        "bytes": int(memory.bytes[row]),
        "at_us": round(int(at[0]) / 1e3, 3),
        "freed_us": round(int(freed_at[row]) / 1e3, 3) if freed_at[row] != _NEVER else None,
        "operator": None if name is None else view.trace.names[name],
        "file": place.file,
        "line": place.line,
        "stack": places.stack(python),
    }
