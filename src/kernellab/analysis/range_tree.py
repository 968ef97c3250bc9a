"""The tree of ranges: what the program named, with CPU and GPU time, averaged over steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.traces.trace import NONE, Column
from kernellab.traceview.row_tree import RowTree, take, sums
from kernellab.traceview.steps import is_step
from kernellab.traceview.view import View

# Ranges of PyTorch's own: Nsight Systems does not see them, and a tree is the same from both.
_TORCHS = (
    r"^(Optimizer\.\w+#|enumerate\(DataLoader\)|ProfilerStep#|DistributedDataParallel|nccl:|gloo:|## Call CompiledFx)"
)


def tree(view: View) -> list[dict[str, Any]]:
    """Nodes from the outside in, each after the one around it, as they first came.

    Times are per step; of a node outside of steps, whole.
    """
    nest = _kept(view)
    if not len(nest):
        return []
    labels, texts, step = _labels(view, nest)
    numbers, known = nest.paths(labels)
    at = _gpu(view, nest)
    own = sums(at[at >= 0], view.gpu_ns[at >= 0], len(nest))
    count = np.bincount(numbers, minlength=len(known))
    cpu = sums(numbers, nest.duration, len(known))
    gpu = sums(numbers, nest.totals(own), len(known))
    first = np.full(len(known), np.iinfo(np.int64).max)
    np.minimum.at(first, numbers, nest.begin)
    stepped = {number for number, path in enumerate(known) if step in path}
    steps = sum(int(count[number]) for number in stepped if known[number][-1] == step) or 1
    found = []
    for number in _in_order(known, first):
        path, over = known[number], steps if number in stepped else 1
        found.append(
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
    return found


def _in_order(known: list[tuple[int, ...]], first: Column) -> list[int]:
    """Each path after the one it lies in, otherwise as they came."""
    inside: dict[tuple[int, ...], list[int]] = {}
    for number in np.argsort(-first, kind="stable").tolist():
        inside.setdefault(known[number][:-1], []).append(number)
    ordered, waiting = list[int](), list(inside.get((), []))
    while waiting:
        ordered.append(waiting.pop())
        waiting += inside.get(known[ordered[-1]], [])
    return ordered


def _kept(view: View) -> RowTree:
    """The program's own ranges; PyTorch's where there are no others."""
    all_ranges = view.ranges
    own = ~view.named(_TORCHS)[all_ranges.name]
    if own.all() or not own.any():
        return all_ranges
    nest = RowTree(view.trace, all_ranges.rows[own])
    nest.adopt(view.main, view.launching)
    return nest


def _gpu(view: View, nest: RowTree) -> Column:
    if nest is view.ranges:
        return view.gpu_ranges
    kept = np.full(len(view.ranges), NONE, dtype=np.int64)
    kept[np.searchsorted(view.ranges.rows, nest.rows)] = np.arange(len(nest))
    return take(kept, take(view.ranges.nearest(kept >= 0), view.gpu_ranges))


def _labels(view: View, nest: RowTree) -> tuple[Column, list[str], int]:
    """Each row's label, what labels say, and the steps' own.

    `step_11` and `step_12` are one node; `layer_0` and `layer_1` are two. A range the program calls `step` is another.
    """
    known: dict[tuple[str, bool], int] = {("step", True): 0}
    of_name = np.zeros(len(view.trace.names), dtype=np.int64)
    for name in np.unique(nest.name).tolist():
        text = view.trace.names[name]
        numbered = is_step(text)
        of_name[name] = known.setdefault(("step" if numbered else text, numbered), len(known))
    return of_name[nest.name], [text for text, _ in known], 0
