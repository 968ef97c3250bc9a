"""The tree of the program's ranges, with CPU and GPU time, averaged over steps."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from kernellab.traces.trace import NONE, Column
from kernellab.traceview.row_tree import RowTree, sum_by_key, take
from kernellab.traceview.steps import is_step
from kernellab.traceview.view import View

# Ranges that PyTorch opens itself. Nsight Systems does not record them; without them both sources give the same tree.
_OF_TORCH = (
    r"^(Optimizer\.\w+#|enumerate\(DataLoader\)|ProfilerStep#|DistributedDataParallel|nccl:|gloo:|## Call CompiledFx)"
)
_STEP = 0  # the label of all steps


class RangeDocument(TypedDict):
    path: list[str]
    name: str
    depth: int
    count: float
    cpu_us: float
    gpu_us: float
    steps: int  # the number of steps the times are averaged over; 1 outside steps


def document(view: View) -> list[RangeDocument]:
    """The nodes, each after the one around it, in order of first appearance.

    Times are per step; times of a node outside steps are totals.
    """
    tree = _own_ranges(view)
    if not len(tree):
        return []
    labels, texts = _labels(view, tree)
    numbers, paths = tree.paths(labels)
    at = _gpu_ranges(view, tree)
    own_gpu = sum_by_key(at[at >= 0], view.gpu_ns[at >= 0], len(tree))
    count = np.bincount(numbers, minlength=len(paths))
    cpu = sum_by_key(numbers, tree.duration, len(paths))
    gpu = sum_by_key(numbers, tree.totals(own_gpu), len(paths))
    first = np.full(len(paths), np.iinfo(np.int64).max)
    np.minimum.at(first, numbers, tree.begin)
    in_steps = {number for number, path in enumerate(paths) if _STEP in path}
    steps = sum(int(count[number]) for number in in_steps if paths[number][-1] == _STEP) or 1
    nodes: list[RangeDocument] = []
    for number in _parents_first(paths, first):
        path, over = paths[number], steps if number in in_steps else 1
        nodes.append(
            {
                "path": [texts[label] for label in path],
                "name": texts[path[-1]],
                "depth": len(path) - 1,
                "count": round(int(count[number]) / over, 3),
                "cpu_us": round(int(cpu[number]) / over / 1e3, 3),
                "gpu_us": round(int(gpu[number]) / over / 1e3, 3),
                "steps": over,
            }
        )
    return nodes


def _parents_first(paths: list[tuple[int, ...]], first: Column) -> list[int]:
    """Each path after its parent, otherwise in order of first appearance."""
    children: dict[tuple[int, ...], list[int]] = {}
    for number in np.argsort(-first, kind="stable").tolist():
        children.setdefault(paths[number][:-1], []).append(number)
    ordered, pending = list[int](), list(children.get((), []))
    while pending:
        ordered.append(pending.pop())
        pending += children.get(paths[ordered[-1]], [])
    return ordered


def _own_ranges(view: View) -> RowTree:
    """The program's own ranges; PyTorch's if there are no others."""
    own = ~view.names_matching(_OF_TORCH)[view.ranges.name]
    if own.all() or not own.any():
        return view.ranges
    tree = RowTree(view.trace, view.ranges.rows[own])
    tree.adopt(view.main_lane, view.launching_lanes)
    return tree


def _gpu_ranges(view: View, tree: RowTree) -> Column:
    """The innermost range of `tree` each GPU row was launched in."""
    if tree is view.ranges:
        return view.gpu_ranges
    position = np.full(len(view.ranges), NONE, dtype=np.int64)
    position[np.searchsorted(view.ranges.rows, tree.rows)] = np.arange(len(tree))
    return take(position, take(view.ranges.nearest(position >= 0), view.gpu_ranges))


def _labels(view: View, tree: RowTree) -> tuple[Column, list[str]]:
    """Each row's label, and the texts of the labels.

    `step_11` and `step_12` are one node; `layer_0` and `layer_1` are two. A range named `step` is a node of its own.
    """
    labels: dict[tuple[str, bool], int] = {("step", True): _STEP}
    by_name = np.zeros(len(view.trace.names), dtype=np.int64)
    for name in np.unique(tree.name).tolist():
        text = view.trace.names[name]
        numbered = is_step(text)
        by_name[name] = labels.setdefault(("step" if numbered else text, numbered), len(labels))
    return by_name[tree.name], [text for text, _ in labels]
