"""Memory: the peak, what held it, how it came about, and the largest allocations with their stacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.traces.trace import Column, Rows
from kernellab.traceview.places import UNKNOWN_PLACE, Places
from kernellab.traceview.row_tree import Mask, take, sums
from kernellab.traceview.view import View

_POINTS = 400
_LARGEST = 10
_FOREVER = np.iinfo(np.int64).max
# By what was under way when memory was asked for; the first that fits.
_OPTIMIZER = r"^Optimizer\.step#|^optimizer_step$"
_PARAMETERS = r"^define_model$"
_INPUTS = r"^define_input$|DataLoader"
_CATEGORIES = ("optimizer", "gradients and backward", "parameters", "inputs", "activations", "other")
_BEFORE = "before the trace began (parameters, states)"


def document(view: View, places: Places) -> dict[str, Any]:
    """Of the GPU that held most, else of the host; empty where no allocations were recorded."""
    memory = view.trace.memory
    if not len(memory.at):
        return {}
    held = {int(d): int(memory.total[memory.device == d].max()) for d in np.unique(memory.device)}
    gpus = {device: total for device, total in held.items() if device >= 0}
    device = max(gpus or held, key=lambda d: held[d])
    mine = np.flatnonzero(memory.device == device)
    peak_at = int(mine[memory.total[mine].argmax()])
    until = _freed(view, mine)
    asked = mine[memory.bytes[mine] > 0]
    live = asked[(memory.at[asked] <= memory.at[peak_at]) & (until[asked] > memory.at[peak_at])]
    category, module = _category(view, live), _modules(view, live)
    largest = asked[np.argsort(-memory.bytes[asked], kind="stable")[:_LARGEST]]
    return {
        "device": device,
        "peak_bytes": int(memory.total[peak_at]),
        "peak_at_us": round(int(memory.at[peak_at]) / 1e3, 3),
        "categories": _by(category, list(_CATEGORIES), memory.bytes[live], int(memory.total[peak_at])),
        "modules": _by_module(view, module, memory.bytes[live]),
        "timeline": _timeline(memory.at[mine], memory.total[mine]),
        "largest": [_allocation(view, places, int(row), until) for row in largest.tolist()],
        "devices": [{"device": d, "peak_bytes": total} for d, total in sorted(held.items())],
    }


def _freed(view: View, mine: Rows) -> Column:
    """When each allocation was given back: the next event of its address, if that is one."""
    memory = view.trace.memory
    until = np.full(len(memory.at), _FOREVER, dtype=np.int64)
    order = mine[np.lexsort((mine, memory.address[mine]))]
    nexts = order[1:]
    pairs = (memory.address[order[:-1]] == memory.address[nexts]) & (memory.bytes[nexts] < 0)
    until[order[:-1][pairs]] = memory.at[nexts[pairs]]
    return until


def _category(view: View, rows: Rows) -> Column:
    memory = view.trace.memory
    lane, at = memory.lane[rows], memory.at[rows]
    ranges = view.ranges
    found = ranges.around(lane, at)
    bare = np.flatnonzero(found < 0)
    found[bare] = ranges.around(np.full(len(bare), view.main, dtype=np.int64), at[bare])

    def within(pattern: str) -> Mask:
        return np.asarray(take(ranges.nearest(view.named(pattern)[ranges.name]), found) >= 0)

    backward = take(view.in_backward, view.operators.around(lane, at)) >= 0
    module = view.modules.around(lane, at) >= 0
    forward = within("(?i)forward") | module
    tests = [within(_OPTIMIZER), backward, within(_PARAMETERS), within(_INPUTS), forward]
    return np.asarray(np.select(tests, list(range(len(tests))), len(tests)), dtype=np.int64)


def _by(category: Column, names: list[str], sizes: Column, peak: int) -> list[dict[str, Any]]:
    spent = sums(category, sizes, len(names)).tolist()
    rows = [*zip(names, spent, strict=True), (_BEFORE, max(peak - sum(spent), 0))]
    found = [{"name": name, "bytes": size} for name, size in rows if size]
    return sorted(found, key=lambda row: -int(row["bytes"]))


def _modules(view: View, rows: Rows) -> Rows:
    """The module an allocation was made in, or whose backward it was made in."""
    memory = view.trace.memory
    found = view.modules.around(memory.lane[rows], memory.at[rows])
    bare = np.flatnonzero(found < 0)
    home = take(view.forward, view.operators.around(memory.lane[rows[bare]], memory.at[rows[bare]]))
    known = home >= 0
    makers = view.operators.rows[home[known]]
    found[bare[known]] = view.modules.around(view.trace.lane[makers], view.trace.begin[makers])
    return found


def _by_module(view: View, module: Rows, sizes: Column) -> list[dict[str, Any]]:
    paths, known = view.modules.paths(view.modules.name)
    inside = module >= 0
    spent = sums(paths[module[inside]], sizes[inside], len(known))
    order = np.argsort(-spent, kind="stable")
    return [
        {"path": [view.trace.names[name] for name in known[number]], "bytes": int(spent[number])}
        for number in order.tolist()
        if spent[number]
    ]


def _timeline(at: Column, total: Column) -> list[list[float]]:
    """Time in microseconds and bytes held; of many points the highest in each stretch."""
    if len(at) > _POINTS:
        starts = np.linspace(0, len(at), _POINTS, endpoint=False).astype(np.int64)
        highest = [int(total[a:b].argmax()) + a for a, b in zip(starts, [*starts[1:], len(at)], strict=True)]
        at, total = at[highest], total[highest]
    return [[round(int(a) / 1e3, 3), int(t)] for a, t in zip(at, total, strict=True)]


def _allocation(view: View, places: Places, row: int, until: Column) -> dict[str, Any]:
    memory, trace = view.trace.memory, view.trace
    lane, at = memory.lane[[row]], memory.at[[row]]
    python = int(places.around(lane, at)[0])
    place = places.at(python, int(at[0])) if python >= 0 else UNKNOWN_PLACE
    operator = int(view.operators.outermost[found]) if (found := int(view.operators.around(lane, at)[0])) >= 0 else -1
    return {
        "bytes": int(memory.bytes[row]),
        "at_us": round(int(at[0]) / 1e3, 3),
        "freed_us": round(int(until[row]) / 1e3, 3) if until[row] != _FOREVER else None,
        "operator": trace.names[int(view.operators.name[operator])] if operator >= 0 else None,
        "file": place.file,
        "line": place.line,
        "stack": places.stack(python),
    }
