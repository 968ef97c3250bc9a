"""The time of first calls: CUDA loads a library or a kernel once, when it is first needed.

In a program with steps, first calls are warm-up. A trace without steps may contain little else, and then shows nothing
about the cost of launches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernellab.traces.trace import NONE, Column, Rows
from kernellab.traceview.row_tree import sum_by_key
from kernellab.traceview.view import View

_FACTOR = 10  # times the median later call
_MIN_EXCESS_NS = 100_000  # beyond the later calls: less may be chance
_LOADING = r"(?i)(lazy function|module) loading"


@dataclass(frozen=True)
class FirstCalls:
    setup_ns: int  # the time of all first calls beyond that of later calls
    largest: int  # the operator with the largest part of it, as a position


def measure_first_calls(view: View, waits: Rows) -> FirstCalls:
    """Compares each operator's first call with its later ones; without later ones, counts the loading inside it."""
    tree, trace = view.operators, view.trace
    own, loading = tree.self_time().copy(), _loading_ns(view)
    around = tree.around(trace.lane[waits], trace.begin[waits])
    own[around[around >= 0]] = 0  # the time an operator waits is the GPU's
    order = np.lexsort((tree.begin, tree.name))
    total, largest, most = 0, NONE, 0
    for calls in np.split(order, np.flatnonzero(np.diff(tree.name[order])) + 1):
        if not len(calls):
            continue
        first, *later = own[calls].tolist()
        typical = float(np.median(later)) if later else first - int(loading[calls[0]])
        excess = round(first - typical)
        if excess >= _MIN_EXCESS_NS and (not later or first > _FACTOR * typical):
            total += excess
            if excess > most:
                largest, most = int(calls[0]), excess
    return FirstCalls(total, largest)


def _loading_ns(view: View) -> Column:
    """How long libraries and kernels were loaded inside each operator. CUDA does not record the thread."""
    rows = np.flatnonzero(view.names_matching(_LOADING)[view.trace.name])
    at = view.operators.around(np.full(len(rows), view.main_lane), view.trace.begin[rows])
    return sum_by_key(at[at >= 0], view.trace.duration[rows[at >= 0]], len(view.operators))
