"""How grids of equal blocks fill a GPU, predicted and measured: the document of `klab waves`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from kernellab.gpumodel.occupancy import Occupancy
from kernellab.gpumodel.waves import BOUNDS, Tiling, Waves, waves
from kernellab.machine.chips import Chip


@dataclass(frozen=True)
class Block:
    """A requested block. `registers` is None for one that takes as many as a thread can have, as the accumulators of a
    large tile do."""

    threads: int
    registers: int | None
    shared_bytes: int
    tile: str | None


@dataclass(frozen=True)
class MeasuredGrid:
    ms: float
    block_ms: float  # one block alone
    efficiency: float


@dataclass(frozen=True)
class FilledGrid:
    """One grid on one GPU. `predictions` by what bounds its blocks."""

    blocks: int
    tiling: Tiling | None
    predictions: Mapping[str, Waves]
    measured: MeasuredGrid | None = None

    @property
    def compute(self) -> Waves:
        """The prediction for compute-bound blocks."""
        return self.predictions["compute"]

    def to_json(self) -> dict[str, object]:
        tiling = None if self.tiling is None else {**asdict(self.tiling), "useful": self.tiling.useful}
        measured = None if self.measured is None else asdict(self.measured)
        predictions = {bound: asdict(prediction) for bound, prediction in self.predictions.items()}
        return {"blocks": self.blocks, "tiling": tiling, "measured": measured, **predictions}


@dataclass(frozen=True)
class FilledGpu:
    """One GPU with its grids. `requested` is the name on the command line; None means the GPU that is present."""

    requested: str | None
    name: str
    variants: Sequence[str]
    chip: Chip
    sms: int
    occupancy: Occupancy
    grids: Sequence[FilledGrid]
    doubts: Sequence[str] = ()  # why measured efficiencies are not to be trusted

    def to_json(self) -> dict[str, object]:
        return {
            "asked": self.requested,
            "name": self.name,
            "variants": list(self.variants),
            "chip": {"arch": self.chip.arch, "warps_per_sm": self.chip.warps_per_sm},
            "sms": self.sms,
            "occupancy": asdict(self.occupancy),
            "grids": [grid.to_json() for grid in self.grids],
            "doubts": list(self.doubts),
        }

    def with_times(self, times_ms: Sequence[float], block_ms: float, doubts: Sequence[str]) -> FilledGpu:
        """The same with the measured time of each grid, and of one block alone."""
        grids = []
        for grid, ms in zip(self.grids, times_ms, strict=True):
            efficiency = grid.blocks / self.sms * block_ms / ms
            grids.append(replace(grid, measured=MeasuredGrid(ms, block_ms, efficiency)))
        return replace(self, grids=grids, doubts=doubts)


def fill(grid: int | Tiling, sms: int, occupancy: Occupancy, chip: Chip, *, ilp: int, cluster: int) -> FilledGrid:
    """Predicts a grid of a number of blocks, or of a matmul in tiles."""
    blocks = grid if isinstance(grid, int) else grid.blocks
    predictions = {
        bound: waves(blocks, sms, occupancy, chip, bound=bound, ilp=ilp, cluster=cluster) for bound in BOUNDS
    }
    return FilledGrid(blocks, None if isinstance(grid, int) else grid, predictions)
