"""How grids fill GPUs: the document of `klab waves`, which the terminal shows and `--json` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from kernellab.base.json import JsonObject
from kernellab.gpumodel.occupancy import Occupancy
from kernellab.gpumodel.waves import Tiling, Waves
from kernellab.machine.chips import Chip


@dataclass(frozen=True)
class Block:
    """The requested block.

    `registers` is None if a thread takes as many as it can have, as for the accumulators of a large tile.
    """

    threads: int
    registers: int | None
    shared_bytes: int
    tile: str | None


@dataclass(frozen=True)
class MeasuredGrid:
    """The measured time of a grid, and of one of its blocks alone."""

    ms: float
    block_ms: float
    efficiency: float


@dataclass(frozen=True)
class GridFill:
    """One grid on one GPU: predictions for blocks that are bound by compute, by latency and by memory."""

    blocks: int
    tiling: Tiling | None
    measured: MeasuredGrid | None
    compute: Waves
    latency: Waves
    memory: Waves

    def to_json(self) -> JsonObject:
        tiling = {**asdict(self.tiling), "useful": self.tiling.useful} if self.tiling else None
        return {**asdict(self), "tiling": tiling}


@dataclass(frozen=True)
class GpuFill:
    """One GPU and the grids on it. `requested_name` is the name on the command line, None for the present GPU."""

    requested_name: str | None
    name: str
    variants: Sequence[str]
    chip: Chip
    sms: int
    occupancy: Occupancy
    grids: Sequence[GridFill]
    doubts: Sequence[str]

    def to_json(self) -> JsonObject:
        return {
            "asked": self.requested_name,
            "name": self.name,
            "variants": list(self.variants),
            "chip": {"arch": self.chip.arch, "warps_per_sm": self.chip.warps_per_sm},
            "sms": self.sms,
            "occupancy": asdict(self.occupancy),
            "grids": [grid.to_json() for grid in self.grids],
            "doubts": list(self.doubts),
        }
