"""When to look at what was measured, and what each look may decide.

A look that stops as soon as it sees a difference is one more chance to be wrong. So the looks are planned, and share
the error level equally.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from kernellab.comparison.estimate import Estimate

FIRST = 4  # with fewer pairs of processes, their scatter says next to nothing


def plan_looks(blocks: int) -> list[int]:
    """The numbers of blocks after which is looked: 4, 8, 16, …, and the last."""
    looks, look = [], FIRST
    while look < blocks:
        looks.append(look)
        look *= 2
    return [*looks, blocks]


def estimate_from_blocks(differences: Sequence[float]) -> Estimate | None:
    """The mean of the logarithms of after / before, one for each block; None with fewer than two blocks."""
    if len(differences) < 2:
        return None
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    return Estimate(statistics.fmean(differences), max(error, _LEAST_ERROR), len(differences) - 1)


_LEAST_ERROR = 1e-6  # equal times to the last digit come from a clock that does not run
