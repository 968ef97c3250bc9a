"""Where the time went: by operator, by kernel, by module; in the steps, where there are any.

An operator's own GPU time is of the kernels it started itself, its total with those of the operators it called. Without
a GPU the same is said of CPU time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernellab.machinecode import kernel_origin as kernelnames
from kernellab.traces.trace import Column, Kind
from kernellab.traceview.row_tree import RowTree, distinct, take, sums
from kernellab.traceview.view import View

_SHAPES_SHOWN = 8
_LAUNCH = ("grid", "block", "registers", "shared_bytes")  # as a kernel's longest run had them
_NOT_STARTED = "(no operator)"


def operators(view: View) -> list[dict[str, Any]]:
    """By operator, the one with most GPU (else CPU) time of its own first."""
    nest, names = view.operators, view.trace.names
    known, told = (view.gpu_operators >= 0) & view.gpu_counted, view.told(nest)
    own_gpu = sums(view.gpu_operators[known], view.gpu_ns[known], len(nest))
    counted = nest.first_of_name() & told
    total_gpu = nest.totals(own_gpu)
    columns = {
        "self_cpu_us": view.sum_by_name(nest.name[told], nest.self_time()[told]),
        "total_cpu_us": view.sum_by_name(nest.name[counted], nest.duration[counted]),
        "self_gpu_us": view.sum_by_name(nest.name[told], own_gpu[told]),
        "total_gpu_us": view.sum_by_name(nest.name[counted], total_gpu[counted]),
    }
    count = np.bincount(nest.name[told], minlength=len(names))
    became, shapes = _became(view), _shapes(view, own_gpu)
    rows = [
        {
            "name": names[name],
            "words": kernelnames.in_words(names[name]) if names[name].startswith("aten::") else "",
            "count": int(count[name]),
            **{key: _us(column[name]) for key, column in columns.items()},
            "kernels": became.get(name, []),
            "shapes": shapes.get(name, []),
        }
        for name in np.flatnonzero(count).tolist()
    ]
    return sorted(rows, key=lambda row: (-row["self_gpu_us"], -row["self_cpu_us"], row["name"]))


def _became(view: View) -> dict[int, list[dict[str, Any]]]:
    """The kernels each operator became, those through operators it called included, with the operators on the way."""
    paths, known = view.operators.paths(view.operators.name)
    path = take(paths, view.gpu_operators)
    found: dict[int, dict[tuple[str, str], list[int]]] = defaultdict(dict)
    for (number, kernel), count, spent in _grouped(view, path, view.trace.name[view.gpu]):
        chain = known[number] if number >= 0 else ()
        for at, name in enumerate(chain):
            if name in chain[:at]:
                continue
            through = " → ".join(view.trace.names[inner] for inner in chain[at + 1 :])
            entry = found[name].setdefault((view.trace.names[kernel], through), [0, 0])
            entry[0] += count
            entry[1] += spent
    return {name: _by_time(kernels) for name, kernels in found.items()}


def _by_time(kernels: dict[tuple[str, str], list[int]]) -> list[dict[str, Any]]:
    rows = [
        {"name": name, "family": kernelnames.family(name).name, "through": through, "count": n, "gpu_us": _us(spent)}
        for (name, through), (n, spent) in kernels.items()
    ]
    return sorted(rows, key=lambda row: -float(row["gpu_us"]))


def _shapes(view: View, own_gpu: Column) -> dict[int, list[dict[str, Any]]]:
    """An operator by the shapes it was given, each with its kernels: products of other sizes run other kernels."""
    nest, told = view.operators, view.told(view.operators)
    detail = view.trace.detail[nest.rows]
    spent = np.where(own_gpu.any(), own_gpu, nest.self_time())
    kernels: dict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    at = view.gpu_operators
    for (op, given, kernel), count, _ in _grouped(
        view, take(nest.name, at), take(detail, at), view.trace.name[view.gpu]
    ):
        if op >= 0:
            kernels[op, given][view.trace.names[kernel]] = count
    pairs, which = distinct(nest.name[told], detail[told])
    counts, times = np.bincount(which), sums(which, spent[told], len(pairs))
    found: dict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
    for (op, shape), count, took in zip(pairs, counts.tolist(), times.tolist(), strict=True):
        shapes = view.trace.details[shape].get("shapes")
        if not shapes:
            continue
        # Details differ by more than shapes: values, strides.
        row = found[op].setdefault(str(shapes), {"shapes": shapes, "count": 0, "time_us": 0.0, "kernels": {}})
        row["count"] += count
        row["time_us"] = round(row["time_us"] + took / 1e3, 3)
        for text, number in kernels[op, shape].items():
            row["kernels"][text] = row["kernels"].get(text, 0) + number
    return {op: sorted(rows.values(), key=lambda r: -r["time_us"])[:_SHAPES_SHOWN] for op, rows in found.items()}


def kernels(view: View) -> list[dict[str, Any]]:
    """By kernel, copies and fills included, with the operators that started it."""
    trace, total = view.trace, max(int(view.gpu_ns[view.gpu_counted].sum()), 1)
    starters: dict[int, list[dict[str, Any]]] = defaultdict(list)
    operator = take(view.operators.name, view.gpu_operators)
    for (kernel, op), count, took in _grouped(view, trace.name[view.gpu], operator):
        starters[kernel].append(
            {"name": trace.names[op] if op >= 0 else _NOT_STARTED, "count": count, "gpu_us": _us(took)}
        )
    rows = []
    longest = view.gpu[view.gpu_counted][np.argsort(-view.gpu_ns[view.gpu_counted], kind="stable")]
    _, first = np.unique(trace.name[longest], return_index=True)
    for row in longest[first].tolist():
        name, text = int(trace.name[row]), trace.name_of(row)
        family = kernelnames.family(text)
        spent = sum(one["gpu_us"] for one in starters[name])
        count = sum(one["count"] for one in starters[name])
        rows.append(
            {
                "name": text,
                "family": family.name,
                "words": family.words,
                "count": count,
                "gpu_us": round(spent, 3),
                "mean_us": round(spent / count, 3),
                "share": round(spent * 1e3 / total, 4),
                "operators": sorted(starters[name], key=lambda one: -one["gpu_us"]),
                **{key: value for key, value in trace.details_of(row).items() if key in _LAUNCH},
            }
        )
    return sorted(rows, key=lambda row: -row["gpu_us"])


def modules(view: View) -> list[dict[str, Any]]:
    """By `nn.Module`, as paths of calls: own and total time, forward and backward."""
    nest = view.modules
    if not len(nest):
        return []
    paths, known = nest.paths(nest.name)
    forward = take(view.in_backward, view.gpu_operators) < 0
    found, told = (view.gpu_modules >= 0) & view.gpu_counted, view.told(nest)
    own = sums(view.gpu_modules[found], view.gpu_ns[found], len(nest))
    back = sums(view.gpu_modules[found & ~forward], view.gpu_ns[found & ~forward], len(nest))
    columns = {
        "self_gpu_us": own,
        "total_gpu_us": nest.totals(own),
        "backward_gpu_us": nest.totals(back),
        "self_cpu_us": nest.self_time(),
        "total_cpu_us": nest.duration,
        "backward_cpu_us": nest.totals(_backward_cpu(view)),
    }
    summed = {key: sums(paths[told], column[told], len(known)) for key, column in columns.items()}
    count = np.bincount(paths[told], minlength=len(known))
    rows = [
        {
            "path": [view.trace.names[name] for name in path],
            "name": view.trace.names[path[-1]],
            "count": int(count[number]),
            **{key: _us(column[number]) for key, column in summed.items()},
        }
        for number, path in enumerate(known)
        if count[number]
    ]
    return sorted(rows, key=lambda row: (-row["total_gpu_us"], -row["total_cpu_us"] - row["backward_cpu_us"]))


def _backward_cpu(view: View) -> Column:
    """By call of a module: the time of the nodes of autograd that undo it."""
    nodes = np.flatnonzero(view.in_backward == np.arange(len(view.operators)))
    home = view.forward[nodes]
    nodes, makers = nodes[home >= 0], view.operators.rows[home[home >= 0]]
    at = view.modules.around(view.trace.lane[makers], view.trace.begin[makers])
    return sums(at[at >= 0], view.operators.duration[nodes[at >= 0]], len(view.modules))


def calls(view: View) -> list[dict[str, Any]]:
    """Calls of CUDA's runtime and driver: the rows people meet, in words."""
    nest = RowTree(view.trace, view.trace.rows(Kind.CALL))
    told = view.told(nest)
    count = np.bincount(nest.name[told], minlength=len(view.trace.names))
    spent = view.sum_by_name(nest.name[told], nest.duration[told])
    rows = [
        {
            "name": view.trace.names[name],
            "words": kernelnames.in_words(view.trace.names[name]),
            "count": int(count[name]),
            "cpu_us": _us(spent[name]),
        }
        for name in np.flatnonzero(count).tolist()
    ]
    return sorted(rows, key=lambda row: -row["cpu_us"])


def _grouped(view: View, *keys: Column) -> Sequence[tuple[tuple[int, ...], int, int]]:
    """The GPU's rows that are told of by equal keys: each with how many and how long."""
    told = view.gpu_counted
    if not told.any():
        return []
    found, which = distinct(*(key[told] for key in keys))
    spent = sums(which, view.gpu_ns[told], len(found))
    return list(zip(found, np.bincount(which).tolist(), spent.tolist(), strict=True))


def _us(ns: float) -> float:
    return round(float(ns) / 1e3, 3)
