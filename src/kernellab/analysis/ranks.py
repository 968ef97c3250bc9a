"""Several processes of one program: what they wait for each other, and how much each computes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernellab.traces.trace import ON_GPU, Column, Kind, Rows, Trace

_LAYER = re.compile(r"layer_\d+$")
_BACKWARD = "autograd::engine::evaluate_function"
# What exchanges data between ranks: gloo's and NCCL's ranges on the CPU, NCCL's kernels on the GPU.
_ON_CPU = re.compile(r"^(gloo|mpi|ucc):")
_KERNELS = re.compile(r"^nccl(Dev)?Kernel")
_REDUCES = re.compile("all_?reduce", re.IGNORECASE)


def ranks(traces: Sequence[Trace]) -> dict[str, Any]:
    """Per rank: the time in collectives, and of it the wait for whoever came last; compute by layer.

    The n-th collective of one rank is the n-th of all. Clocks of several machines are taken as they are.
    """
    collectives = [_collectives(trace) for trace in traces]
    count = min((len(rows) for rows in collectives), default=0)
    begins = np.array([_wall(t, rows)[:count] for t, rows in zip(traces, collectives, strict=True)], dtype=np.int64)
    late = begins.max(axis=0, initial=0) - begins if count else np.zeros((len(traces), 0), dtype=np.int64)
    last = np.bincount(begins.argmax(axis=0), minlength=len(traces)) if count else np.zeros(len(traces), dtype=int)
    found = []
    for number, (trace, rows) in enumerate(zip(traces, collectives, strict=True)):
        reduces = [row for row in rows if _REDUCES.search(trace.name_of(row))]
        found.append(
            {
                "rank": int(trace.metadata.get("rank", number)),
                "collectives": len(rows),
                "collective_us": _us(trace.duration[rows].sum()),
                "all_reduces": len(reduces),
                "all_reduce_us": _us(trace.duration[reduces].sum()),
                "wait_us": _us(late[number].sum()),
                "came_last": int(last[number]),
                "layers": _layers(trace),
            }
        )
    return {"ranks": found, "matched": count, "uneven": len({len(rows) for rows in collectives}) > 1}


def _us(ns: Any) -> float:
    return round(float(ns) / 1e3, 3)


def _wall(trace: Trace, rows: Rows) -> Column:
    return trace.begin[rows] + trace.zero_ns


def _collectives(trace: Trace) -> Rows:
    """In the order they began; on the GPU its kernels, which wait there, else the ranges of the threads that wait."""
    kernels = [row for row in trace.rows(Kind.KERNEL).tolist() if _KERNELS.search(trace.name_of(row))]
    on_cpu = [row for row in trace.rows(Kind.RANGE, Kind.OPERATOR).tolist() if _ON_CPU.search(trace.name_of(row))]
    rows = np.array(kernels or on_cpu, dtype=np.int64)
    return rows[np.argsort(trace.begin[rows], kind="stable")]


def _layers(trace: Trace) -> list[dict[str, Any]]:
    """Forward and backward time of each `layer_<i>`, per time it ran: the GPU's where it computes, else the CPU's."""
    is_layer = np.array([bool(_LAYER.match(name)) for name in trace.names], dtype=np.bool_)
    ranges = trace.rows(Kind.RANGE)
    ranges = ranges[is_layer[trace.name[ranges]]] if len(ranges) else ranges
    if not len(ranges):
        return []
    operators = trace.rows(Kind.OPERATOR)
    home = _around(trace, ranges, operators)
    undone = _undone(trace, operators, home)
    started = trace.rows(*ON_GPU)
    started = started[trace.launched_by[started] >= 0]
    if len(started):
        calls = trace.launched_by[started]
        forward = _summed(trace, _around(trace, ranges, calls), trace.duration[started])
        nodes = np.array(sorted(undone), dtype=np.int64)
        inside = _around(trace, nodes, calls) if len(nodes) else np.full(len(calls), -1)
        named = np.array([undone.get(int(node), -1) for node in inside], dtype=np.int64)
        backward = _summed(trace, named, trace.duration[started])
    else:
        forward = _summed(trace, ranges, trace.duration[ranges])
        nodes = np.array(list(undone), dtype=np.int64)
        backward = _summed(trace, np.array(list(undone.values()), dtype=np.int64), trace.duration[nodes])
    counts = np.bincount(trace.name[ranges], minlength=len(trace.names))
    names = sorted(set(trace.name[ranges].tolist()), key=lambda name: int(trace.names[name].rpartition("_")[2]))
    return [
        {
            "layer": trace.names[name],
            "count": int(counts[name]),
            "forward_us": _us(forward[name] / counts[name]),
            "backward_us": _us(backward[name] / counts[name]),
        }
        for name in names
    ]


def _around(trace: Trace, ranges: Rows, rows: Rows) -> Rows:
    """Which of some ranges, none inside another, lies around each row in its lane; -1: none."""
    found = np.full(len(rows), -1, dtype=np.int64)
    for lane in np.unique(trace.lane[ranges]):
        mine = ranges[trace.lane[ranges] == lane]
        mine = mine[np.argsort(trace.begin[mine], kind="stable")]
        here = np.flatnonzero(trace.lane[rows] == lane)
        at = np.searchsorted(trace.begin[mine], trace.begin[rows[here]], side="right") - 1
        inside = (at >= 0) & (trace.begin[rows[here]] < trace.end[mine[at.clip(min=0)]])
        found[here[inside]] = mine[at[inside]]
    return found


def _undone(trace: Trace, operators: Rows, home: Rows) -> dict[int, int]:
    """Autograd's nodes, each with the layer whose forward it undoes: both show one sequence number."""
    backward = np.array([name.startswith(_BACKWARD) for name in trace.names], dtype=np.bool_)
    is_node = backward[trace.name[operators]] if len(operators) else np.zeros(0, dtype=np.bool_)
    made: dict[int, int] = {}
    forward = np.flatnonzero(~is_node & (home >= 0) & (trace.sequence[operators] > 0))
    forward = forward[np.argsort(trace.begin[operators[forward]], kind="stable")]
    for at in forward.tolist():
        made[int(trace.sequence[operators[at]])] = int(home[at])  # the last to show a number has made the node
    nodes = operators[is_node].tolist()
    return {node: made[int(trace.sequence[node])] for node in nodes if made.get(int(trace.sequence[node]), -1) >= 0}


def _summed(trace: Trace, of: Rows, values: Column) -> Column:
    """Values by the name of the row they belong to."""
    known = of >= 0
    sums: Column = np.bincount(
        trace.name[of[known]], weights=values[known].astype(float), minlength=len(trace.names)
    ).astype(np.int64)
    return sums
