"""What first calls take: CUDA loads a library or a kernel when it is first needed, and never again.

Of a program with steps these are warm-up. A trace without steps may hold little else, and is then no measure of what
its launches take.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernellab.traces.trace import NONE, Rows
from kernellab.traceview.row_tree import sums
from kernellab.traceview.view import View

_FAR = 10  # times what most later calls take
_LEAST_NS = 100_000  # that a first call takes beyond: less may be chance
_LOADING = r"(?i)(lazy function|module) loading"


@dataclass(frozen=True)
class FirstCalls:
    setup_ns: int  # beyond what later calls take
    dearest: int  # of operators, as a position


def first_calls(view: View, waits: Rows) -> FirstCalls:
    """By operator: its first call against its later ones; where there are none, what was loaded in it."""
    nest, trace = view.operators, view.trace
    own, loaded = nest.self_time().copy(), _loaded(view)
    around = nest.around(trace.lane[waits], trace.begin[waits])
    own[around[around >= 0]] = 0  # what an operator waits for is the GPU's time
    order = np.lexsort((nest.begin, nest.name))
    total, dearest, most = 0, NONE, 0
    for calls in np.split(order, np.flatnonzero(np.diff(nest.name[order])) + 1):
        if not len(calls):
            continue
        first, *later = own[calls].tolist()
        usual = float(np.median(later)) if later else first - int(loaded[calls[0]])
        beyond = round(first - usual)
        if beyond >= _LEAST_NS and (not later or first > _FAR * usual):
            total += beyond
            if beyond > most:
                dearest, most = int(calls[0]), beyond
    return FirstCalls(total, dearest)


def _loaded(view: View) -> Rows:
    """How long something was loaded in each operator. CUDA does not say in which thread."""
    rows = np.flatnonzero(view.named(_LOADING)[view.trace.name])
    at = view.operators.around(np.full(len(rows), view.main), view.trace.begin[rows])
    return sums(at[at >= 0], view.trace.duration[rows[at >= 0]], len(view.operators))
