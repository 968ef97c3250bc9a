"""The saw-tooth: the predicted efficiency of one kernel over all sizes of its grid, with few points."""

from __future__ import annotations

from collections.abc import Iterator

from kernellab.gpumodel.occupancy import Occupancy
from kernellab.gpumodel.waves import Waves, waves
from kernellab.machine.chips import Chip

_EVERY_TOOTH = 96  # so many teeth are drawn; beyond, where a drop is below 1 %, only some of them
_TEETH_PER_DOUBLING = 4
_POINTS_PER_DOUBLING = 6  # on a logarithmic axis the side of a tooth is curved


def wave_curve(
    largest: int, sms: int, occupancy: Occupancy, chip: Chip, *, bound: str = "compute", cluster: int = 1
) -> list[Waves]:
    """The kernel at grids from the smallest to at least `largest` blocks: both sides of each drop, and points between.

    Where blocks are bound by latency, a tooth is as wide as what the GPU holds at once, otherwise as the number of SMs.
    """
    usable = max(sms // cluster, 1) * cluster
    width = usable * max(occupancy.blocks_per_sm, 1) if bound == "latency" else usable
    sizes = sorted({blocks for blocks in _sizes(largest, width, cluster) if blocks >= cluster})
    return [waves(blocks, sms, occupancy, chip, bound=bound, cluster=cluster) for blocks in sizes]


def _sizes(largest: int, width: int, cluster: int) -> Iterator[int]:
    for tooth in _teeth(-(-largest // width)):
        before, after = (tooth - 1) * width, tooth * width
        yield before
        yield from (int(size) // cluster * cluster for size in _between(before or cluster, after))
        yield before + cluster
        yield after


def _between(low: int, high: int) -> Iterator[float]:
    size = float(low)
    while (size := size * 2 ** (1 / _POINTS_PER_DOUBLING)) < high:
        yield size


def _teeth(last: int) -> list[int]:
    """All of the first teeth, then ever fewer, and the last one."""
    teeth = set(range(1, min(last, _EVERY_TOOTH) + 1)) | {last}
    tooth = float(_EVERY_TOOTH)
    while (tooth := tooth * 2 ** (1 / _TEETH_PER_DOUBLING)) < last:
        teeth.add(int(tooth))
    return sorted(teeth)
