"""Several processes of one program: how long they wait for each other, and how much each computes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from kernellab.traces.trace import Column, Kind, Rows, Trace
from kernellab.traceview.row_tree import RowTree
from kernellab.traceview.view import View

_LAYER = r"^layer_\d+$"
# What exchanges data between ranks: ranges of gloo, MPI and UCC on the CPU, kernels of NCCL on the GPU.
_CPU_COLLECTIVE = r"^(gloo|mpi|ucc):"
_GPU_COLLECTIVE = r"^nccl(Dev)?Kernel"
_ALL_REDUCE = re.compile("all_?reduce", re.IGNORECASE)


class LayerDocument(TypedDict):
    layer: str
    count: int
    forward_us: float
    backward_us: float


class RankDocument(TypedDict):
    rank: int
    collectives: int
    collective_us: float
    all_reduces: int
    all_reduce_us: float
    wait_us: float  # in collectives, for the rank that arrived last
    came_last: int  # how often this rank was that one
    layers: list[LayerDocument]


class RanksDocument(TypedDict):
    ranks: list[RankDocument]
    matched: int  # collectives that every rank recorded
    uneven: bool  # ranks recorded different numbers of collectives


def compare_ranks(traces: Sequence[Trace]) -> RanksDocument:
    """Per rank: the time in collectives, the part of it spent waiting for the last rank, and compute by layer.

    The n-th collective of one rank is the n-th of all. Differences between machines' clocks are not corrected.
    """
    views = [View(trace) for trace in traces]
    collectives = [_collectives(view) for view in views]
    matched = min((len(rows) for rows in collectives), default=0)
    begins = [(trace.begin[rows] + trace.zero_ns)[:matched] for trace, rows in zip(traces, collectives, strict=True)]
    arrival = np.array(begins, dtype=np.int64).reshape(len(traces), matched)
    wait = arrival.max(axis=0, initial=0) - arrival
    came_last = np.bincount(arrival.argmax(axis=0), minlength=len(traces)) if matched else np.zeros(len(traces), int)
    ranks: list[RankDocument] = []
    for number, (view, rows) in enumerate(zip(views, collectives, strict=True)):
        trace, rank = view.trace, view.trace.metadata.get("rank")
        all_reduces = [row for row in rows if _ALL_REDUCE.search(trace.name_of(row))]
        ranks.append(
            {
                "rank": rank if isinstance(rank, int) else number,
                "collectives": len(rows),
                "collective_us": _us(trace.duration[rows].sum()),
                "all_reduces": len(all_reduces),
                "all_reduce_us": _us(trace.duration[all_reduces].sum()),
                "wait_us": _us(wait[number].sum()),
                "came_last": int(came_last[number]),
                "layers": _layers(view),
            }
        )
    return {"ranks": ranks, "matched": matched, "uneven": len({len(rows) for rows in collectives}) > 1}


def _us(ns: float) -> float:
    return round(float(ns) / 1e3, 3)


def _collectives(view: View) -> Rows:
    """In the order they began: kernels on the GPU, which wait there; else the ranges of the threads that wait."""
    trace = view.trace
    kernels, ranges = trace.rows(Kind.KERNEL), trace.rows(Kind.RANGE, Kind.OPERATOR)
    kernels = kernels[view.names_matching(_GPU_COLLECTIVE)[trace.name[kernels]]]
    ranges = ranges[view.names_matching(_CPU_COLLECTIVE)[trace.name[ranges]]]
    rows = kernels if len(kernels) else ranges
    return rows[np.argsort(trace.begin[rows], kind="stable")]


def _layers(view: View) -> list[LayerDocument]:
    """Forward and backward time of each `layer_<i>`, per run: GPU time if there is any, else CPU time."""
    trace, ranges = view.trace, view.trace.rows(Kind.RANGE)
    layers = RowTree(trace, ranges[view.names_matching(_LAYER)[trace.name[ranges]]])
    if not len(layers):
        return []
    forward, backward = _gpu_time(view, layers) if (view.gpu_calls >= 0).any() else _cpu_time(view, layers)
    count = np.bincount(layers.name, minlength=len(trace.names))
    names = sorted(set(layers.name.tolist()), key=lambda name: int(trace.names[name].rpartition("_")[2]))
    return [
        {
            "layer": trace.names[name],
            "count": int(count[name]),
            "forward_us": _us(forward[name] / count[name]),
            "backward_us": _us(backward[name] / count[name]),
        }
        for name in names
    ]


def _gpu_time(view: View, layers: RowTree) -> tuple[Column, Column]:
    """By name of a layer: the time of the kernels launched in it, and in its backward."""
    trace, launched = view.trace, view.gpu_calls >= 0
    calls, ns = view.gpu_calls[launched], view.gpu_ns[launched]
    forward = layers.around(trace.lane[calls], trace.begin[calls])
    backward = view.around_forward(layers, view.gpu_operators[launched])
    return _sum_by_layer(view, layers, forward, ns), _sum_by_layer(view, layers, backward, ns)


def _cpu_time(view: View, layers: RowTree) -> tuple[Column, Column]:
    """By name of a layer: the time of its ranges, and of the autograd nodes of its backward."""
    nodes = np.flatnonzero(view.backward_node == np.arange(len(view.operators)))
    forward = view.sum_by_name(layers.name, layers.duration)
    backward = view.around_forward(layers, nodes)
    return forward, _sum_by_layer(view, layers, backward, view.operators.duration[nodes])


def _sum_by_layer(view: View, layers: RowTree, at: Rows, values: Column) -> Column:
    inside = at >= 0
    return view.sum_by_name(layers.name[at[inside]], values[inside])
