"""The saw-tooth: the predicted efficiency of one kernel over all sizes of its grid, with few points."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kernellab.gpumodel.occupancy import Occupancy
from kernellab.gpumodel.waves import Waves, waves
from kernellab.machine.chips import Chip

_EVERY_TOOTH = 32  # so many teeth are drawn; beyond, some of them: the curve is nearly flat there
_TEETH_PER_DOUBLING = 4
_INSIDE = 6  # points inside each of the first teeth, whose sides are curved on a logarithmic axis


def wave_curve(
    largest: int, sms: int, occupancy: Occupancy, chip: Chip, *, bound: str = "compute", cluster: int = 1
) -> list[Waves]:
    """The kernel at grids from the smallest to about `largest` blocks: both sides of each drop, and points between."""
    usable = max(sms // cluster, 1) * cluster
    sizes = sorted({blocks for blocks in _sizes(largest, usable, cluster) if cluster <= blocks})
    return [waves(blocks, sms, occupancy, chip, bound=bound, cluster=cluster) for blocks in sizes]


def _sizes(largest: int, usable: int, cluster: int) -> Iterator[int]:
    for tooth in _teeth(largest // usable + 1):
        before = (tooth - 1) * usable
        yield before
        yield before + cluster
        yield tooth * usable
        if tooth <= _INSIDE:
            yield from (before + usable * part // _INSIDE // cluster * cluster for part in range(1, _INSIDE))
    if usable > _INSIDE * cluster:  # the first tooth begins at a single block, far to the left
        doublings = int(math.log2(usable / cluster))
        yield from (cluster << doubling for doubling in range(doublings + 1))


def _teeth(last: int) -> list[int]:
    """All of the first teeth, then ever fewer, and the last ones."""
    teeth = set(range(1, min(last, _EVERY_TOOTH) + 1)) | {last}
    step = 2 ** (1 / _TEETH_PER_DOUBLING)
    tooth = float(_EVERY_TOOTH)
    while (tooth := tooth * step) < last:
        teeth.add(int(tooth))
    return sorted(teeth)
