"""The trials of a battery that run under compute-sanitizer: at most forty, because kernels are slow there."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernellab.declaration.case import Case
from kernellab.trials import calls
from kernellab.trials.trial import Trial

MAX_TRIALS = 40
# Kernels run 10 to 100 times slower under a tool. The multiply-adds of a 128 × 128 × 128 product take a second or two.
_MAX_WORK = 1 << 22
# Trials per kind. Which path a kernel takes, and so which memory it accesses, depends on sizes, layouts and options,
# hardly on values. Far strides and large sizes would take gigabytes.
_SHARES = {"options": 6, "dtypes": 4, "sizes": 11, "ranks": 3, "layouts": 7, "values": 1, "indices": 2, "gradients": 6}


def select(trials: Sequence[Trial], max_trials: int = MAX_TRIALS) -> list[Trial]:
    """The trials to run under a tool, in the battery's order.

    They are plain calls, forward and backward, neither empty nor large. Each kind has a share, spread evenly from the
    first to the last. With a lower `max_trials`, the kinds take turns.
    """
    plain = [t for t in trials if t.call == calls.PLAIN and t.loss_on is None]
    suitable = [t for t in plain if t.pass_name in ("forward", "backward") and _work(t.case) > 0]
    small = [t for t in suitable if _work(t.case) <= _MAX_WORK]
    shares = [_spread([t for t in small if t.kind == kind], share) for kind, share in _SHARES.items()]
    chosen: set[str] = set()
    for turn in range(max(_SHARES.values())):
        for share in shares:
            if turn < len(share) and len(chosen) < max_trials:
                chosen.add(share[turn].key)
    return [t for t in suitable if t.key in chosen]


def _spread(trials: Sequence[Trial], count: int) -> list[Trial]:
    """`count` of the trials, spread evenly."""
    if len(trials) <= count:
        return list(trials)
    if count == 1:
        return [trials[len(trials) // 2]]
    return [trials[round(i * (len(trials) - 1) / (count - 1))] for i in range(count)]


def _work(case: Case) -> int:
    """The product of all sizes: at least the op's elements, and the multiply-adds of a matmul."""
    return math.prod(math.prod(size) if isinstance(size, tuple) else size for size in case.dims.values())
