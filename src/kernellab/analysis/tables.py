"""Where the time went: by operator, by kernel, by module, by CUDA call. If there are steps, only they count.

An operator's own GPU time is that of the kernels it launched itself; its total includes the operators it called.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NotRequired, TypedDict

import numpy as np

from kernellab.machinecode import kernel_origin
from kernellab.traces.trace import Column, Kind, Mask
from kernellab.traceview.row_tree import RowTree, distinct, sum_by_key, take
from kernellab.traceview.view import View

_MAX_SHAPES = 8  # listed per operator
_NO_OPERATOR = "(no operator)"


class OperatorKernelDocument(TypedDict):
    """A kernel that an operator launched, and the operators it called to do so."""

    name: str
    family: str
    through: str
    count: int
    gpu_us: float


class OperatorShapeDocument(TypedDict):
    """An operator's calls with the same input shapes."""

    shapes: list[list[int] | list[list[int]]]
    count: int
    time_us: float
    kernels: dict[str, int]  # how often each ran


class OperatorDocument(TypedDict):
    name: str
    words: str
    count: int
    self_cpu_us: float
    total_cpu_us: float
    self_gpu_us: float
    total_gpu_us: float
    kernels: list[OperatorKernelDocument]
    shapes: list[OperatorShapeDocument]


class KernelOperatorDocument(TypedDict):
    """An operator that launched a kernel."""

    name: str
    count: int
    gpu_us: float


class KernelDocument(TypedDict):
    name: str
    family: str
    words: str
    count: int
    gpu_us: float
    mean_us: float
    share: float
    operators: list[KernelOperatorDocument]
    # The launch configuration of its longest run.
    grid: NotRequired[list[int]]
    block: NotRequired[list[int]]
    registers: NotRequired[int]
    shared_bytes: NotRequired[int]


class ModuleDocument(TypedDict):
    path: list[str]
    name: str
    count: int
    self_gpu_us: float
    total_gpu_us: float
    backward_gpu_us: float
    self_cpu_us: float
    total_cpu_us: float
    backward_cpu_us: float


class CallDocument(TypedDict):
    name: str
    words: str
    count: int
    cpu_us: float


def operators(view: View) -> list[OperatorDocument]:
    """By operator, ordered by GPU self time, else by CPU self time."""
    tree, names = view.operators, view.trace.names
    launched, counted = (view.gpu_operators >= 0) & view.gpu_counted, view.counted(tree)
    own_gpu = sum_by_key(view.gpu_operators[launched], view.gpu_ns[launched], len(tree))
    once = tree.first_of_name() & counted
    self_cpu = view.sum_by_name(tree.name[counted], tree.self_time()[counted])
    total_cpu = view.sum_by_name(tree.name[once], tree.duration[once])
    self_gpu = view.sum_by_name(tree.name[counted], own_gpu[counted])
    total_gpu = view.sum_by_name(tree.name[once], tree.totals(own_gpu)[once])
    count = np.bincount(tree.name[counted], minlength=len(names))
    kernels, shapes = _kernels_by_operator(view), _shapes_by_operator(view, own_gpu)
    rows: list[OperatorDocument] = [
        {
            "name": names[name],
            "words": kernel_origin.describe_row(names[name]) if names[name].startswith("aten::") else "",
            "count": int(count[name]),
            "self_cpu_us": _us(self_cpu[name]),
            "total_cpu_us": _us(total_cpu[name]),
            "self_gpu_us": _us(self_gpu[name]),
            "total_gpu_us": _us(total_gpu[name]),
            "kernels": kernels.get(name, []),
            "shapes": shapes.get(name, []),
        }
        for name in np.flatnonzero(count).tolist()
    ]
    return sorted(rows, key=lambda row: (-row["self_gpu_us"], -row["self_cpu_us"], row["name"]))


def _kernels_by_operator(view: View) -> dict[int, list[OperatorKernelDocument]]:
    """The kernels that each operator launched, directly and through the operators it called."""
    numbers, paths = view.operators.paths(view.operators.name)
    path = take(numbers, view.gpu_operators)
    totals: dict[int, dict[tuple[str, str], list[int]]] = defaultdict(dict)
    for (number, kernel), count, ns in _group_gpu_rows(view, path, view.trace.name[view.gpu_rows]):
        chain = paths[number] if number >= 0 else ()
        for at, name in enumerate(chain):
            if name in chain[:at]:
                continue
            through = " → ".join(view.trace.names[inner] for inner in chain[at + 1 :])
            total = totals[name].setdefault((view.trace.names[kernel], through), [0, 0])
            total[0] += count
            total[1] += ns
    return {name: _longest_first(kernels) for name, kernels in totals.items()}


def _longest_first(kernels: dict[tuple[str, str], list[int]]) -> list[OperatorKernelDocument]:
    rows: list[OperatorKernelDocument] = [
        {
            "name": name,
            "family": kernel_origin.find_family(name).name,
            "through": through,
            "count": count,
            "gpu_us": _us(ns),
        }
        for (name, through), (count, ns) in kernels.items()
    ]
    return sorted(rows, key=lambda row: -row["gpu_us"])


def _shapes_by_operator(view: View, own_gpu: Column) -> dict[int, list[OperatorShapeDocument]]:
    """Each operator's calls by input shapes, with their kernels: products of different sizes run different kernels."""
    tree, counted = view.operators, view.counted(view.operators)
    detail = view.trace.detail[tree.rows]
    own = np.where(own_gpu.any(), own_gpu, tree.self_time())
    kernels: dict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    at = view.gpu_operators
    keys = take(tree.name, at), take(detail, at), view.trace.name[view.gpu_rows]
    for (operator, operator_detail, kernel), count, _ in _group_gpu_rows(view, *keys):
        if operator >= 0:
            kernels[operator, operator_detail][view.trace.names[kernel]] = count
    pairs, which = distinct(tree.name[counted], detail[counted])
    counts, times = np.bincount(which), sum_by_key(which, own[counted], len(pairs))
    rows: dict[int, dict[str, OperatorShapeDocument]] = defaultdict(dict)
    for (operator, operator_detail), count, ns in zip(pairs, counts.tolist(), times.tolist(), strict=True):
        shapes = view.trace.details[operator_detail].get("shapes")
        if not shapes:
            continue
        # Details differ in more than shapes: values, strides.
        row = rows[operator].setdefault(str(shapes), {"shapes": shapes, "count": 0, "time_us": 0.0, "kernels": {}})
        row["count"] += count
        row["time_us"] = round(row["time_us"] + ns / 1e3, 3)
        for name, times_run in kernels[operator, operator_detail].items():
            row["kernels"][name] = row["kernels"].get(name, 0) + times_run
    return {
        operator: sorted(by_shape.values(), key=lambda row: -row["time_us"])[:_MAX_SHAPES]
        for operator, by_shape in rows.items()
    }


def kernels(view: View) -> list[KernelDocument]:
    """By kernel, copies and fills included, with the operators that launched it; the longest first."""
    trace, total = view.trace, max(int(view.gpu_ns[view.gpu_counted].sum()), 1)
    launchers: dict[int, list[KernelOperatorDocument]] = defaultdict(list)
    operator_name = take(view.operators.name, view.gpu_operators)
    for (kernel, operator), count, ns in _group_gpu_rows(view, trace.name[view.gpu_rows], operator_name):
        name = trace.names[operator] if operator >= 0 else _NO_OPERATOR
        launchers[kernel].append({"name": name, "count": count, "gpu_us": _us(ns)})
    longest = view.gpu_rows[view.gpu_counted][np.argsort(-view.gpu_ns[view.gpu_counted], kind="stable")]
    _, first = np.unique(trace.name[longest], return_index=True)
    rows = [_kernel(view, row, launchers[int(trace.name[row])], total) for row in longest[first].tolist()]
    return sorted(rows, key=lambda row: -row["gpu_us"])


def _kernel(view: View, longest: int, launchers: list[KernelOperatorDocument], total_ns: int) -> KernelDocument:
    """`longest` is the row of its longest run."""
    name, details = view.trace.name_of(longest), view.trace.details_of(longest)
    family = kernel_origin.find_family(name)
    gpu_us = sum(launcher["gpu_us"] for launcher in launchers)
    count = sum(launcher["count"] for launcher in launchers)
    row: KernelDocument = {
        "name": name,
        "family": family.name,
        "words": family.description,
        "count": count,
        "gpu_us": round(gpu_us, 3),
        "mean_us": round(gpu_us / count, 3),
        "share": round(gpu_us * 1e3 / total_ns, 4),
        "operators": sorted(launchers, key=lambda launcher: -launcher["gpu_us"]),
    }
    if "grid" in details:
        row["grid"] = details["grid"]
    if "block" in details:
        row["block"] = details["block"]
    if "registers" in details:
        row["registers"] = details["registers"]
    if "shared_bytes" in details:
        row["shared_bytes"] = details["shared_bytes"]
    return row


def modules(view: View) -> list[ModuleDocument]:
    """By path of `nn.Module` calls: own and total time, forward and backward."""
    tree = view.modules
    if not len(tree):
        return []
    numbers, paths = tree.paths(tree.name)
    backward = take(view.backward_node, view.gpu_operators) >= 0
    in_module, counted = (view.gpu_modules >= 0) & view.gpu_counted, view.counted(tree)

    def gpu_time(mask: Mask) -> Column:
        return sum_by_key(view.gpu_modules[mask], view.gpu_ns[mask], len(tree))

    def by_path(column: Column) -> Column:
        return sum_by_key(numbers[counted], column[counted], len(paths))

    own_gpu = gpu_time(in_module)
    self_gpu, total_gpu = by_path(own_gpu), by_path(tree.totals(own_gpu))
    backward_gpu = by_path(tree.totals(gpu_time(in_module & backward)))
    self_cpu, total_cpu = by_path(tree.self_time()), by_path(tree.duration)
    backward_cpu = by_path(tree.totals(_backward_cpu(view)))
    count = np.bincount(numbers[counted], minlength=len(paths))
    rows: list[ModuleDocument] = [
        {
            "path": [view.trace.names[name] for name in path],
            "name": view.trace.names[path[-1]],
            "count": int(count[number]),
            "self_gpu_us": _us(self_gpu[number]),
            "total_gpu_us": _us(total_gpu[number]),
            "backward_gpu_us": _us(backward_gpu[number]),
            "self_cpu_us": _us(self_cpu[number]),
            "total_cpu_us": _us(total_cpu[number]),
            "backward_cpu_us": _us(backward_cpu[number]),
        }
        for number, path in enumerate(paths)
        if count[number]
    ]
    return sorted(rows, key=lambda row: (-row["total_gpu_us"], -row["total_cpu_us"] - row["backward_cpu_us"]))


def _backward_cpu(view: View) -> Column:
    """For each call of a module, the time of the autograd nodes of its backward."""
    nodes = np.flatnonzero(view.backward_node == np.arange(len(view.operators)))
    at = view.around_forward(view.modules, nodes)
    return sum_by_key(at[at >= 0], view.operators.duration[nodes[at >= 0]], len(view.modules))


def calls(view: View) -> list[CallDocument]:
    """Calls of CUDA's runtime and driver, with an explanation of the common ones; the longest first."""
    tree = RowTree(view.trace, view.trace.rows(Kind.CALL))
    counted = view.counted(tree)
    count = np.bincount(tree.name[counted], minlength=len(view.trace.names))
    total = view.sum_by_name(tree.name[counted], tree.duration[counted])
    rows: list[CallDocument] = [
        {
            "name": view.trace.names[name],
            "words": kernel_origin.describe_row(view.trace.names[name]),
            "count": int(count[name]),
            "cpu_us": _us(total[name]),
        }
        for name in np.flatnonzero(count).tolist()
    ]
    return sorted(rows, key=lambda row: -row["cpu_us"])


def _group_gpu_rows(view: View, *keys: Column) -> Sequence[tuple[tuple[int, ...], int, int]]:
    """The counted GPU rows by equal keys: the keys, how many rows, and their nanoseconds."""
    counted = view.gpu_counted
    if not counted.any():
        return []
    combinations, which = distinct(*(key[counted] for key in keys))
    total = sum_by_key(which, view.gpu_ns[counted], len(combinations))
    return list(zip(combinations, np.bincount(which).tolist(), total.tolist(), strict=True))


def _us(ns: float) -> float:
    return round(float(ns) / 1e3, 3)
