"""`klab waves`: how a grid fills a GPU, for any GPU of the database; a range of grids is drawn."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.cli.options import add_json_option, print_json, split_commas

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser
    from kernellab.gpumodel.grid_fill import Block, GpuFill, GridFill
    from kernellab.gpumodel.occupancy import Occupancy
    from kernellab.gpumodel.waves import Tiling
    from kernellab.machine.chips import Chip

SUMMARY = "say how a grid fills a GPU, and what its last wave costs"
ORDER = 100

_THREADS, _REGISTERS = 256, 32
_ROUNDS = 9  # of --measure
_MOST_BLOCKS = 2**31 - 1  # along a grid's first dim


@dataclass(frozen=True)
class Gpu:
    """A GPU to fill. `requested` is the name on the command line; None means the GPU that is present."""

    requested: str | None
    name: str
    variants: list[str]
    chip: Chip
    sms: int


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "--gpu", metavar="A,B", help="GPUs by name (default: the one present); klab device --list shows them"
    )
    parser.add_argument("--blocks", metavar="N", help="blocks of the grid: 120, or a range 64:1024:4")
    parser.add_argument("--threads", type=int, metavar="N", help=f"threads per block (default {_THREADS})")
    parser.add_argument("--regs", type=int, metavar="N", help=f"registers per thread (default {_REGISTERS})")
    parser.add_argument("--shared", type=int, default=0, metavar="BYTES", help="shared memory per block (default 0)")
    parser.add_argument("--cluster", type=int, default=1, metavar="N", help="blocks per cluster (default 1)")
    parser.add_argument("--matmul", metavar="MxN", help="a matmul in tiles: 4096x4096, or squares 512:8192:256")
    parser.add_argument("--tile", metavar="MxN", help="with --matmul: the tile of a block, 128x256")
    parser.add_argument(
        "--ilp", type=int, default=4, metavar="N", help="independent instructions that a warp has ready (default 4)"
    )
    parser.add_argument("--measure", action="store_true", help="also time such grids on the GPU present")
    parser.add_argument("--plot", metavar="FILE", help="draw a range to FILE.png or FILE.svg")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    from kernellab.reporting.terminal import waves as report
    from kernellab.reporting.text.console import console

    grids = _parse_grids(args)
    if args.plot and (Path(args.plot).suffix not in (".png", ".svg") or len(grids) < 2):
        raise UserError(f"--plot {args.plot}: draws a range (--blocks 64:1024:4) to a .png or .svg file")
    if args.measure and args.gpu is not None:
        raise UserError("--measure times the GPU present: leave out --gpu")
    if args.measure and args.cluster > 1:
        raise UserError("--measure times grids without clusters: leave out --cluster")
    block = _parse_block(args)
    fills = [_fill(gpu, grids, block, args) for gpu in _find_gpus(args.gpu)]
    if args.json:
        print_json([fill.to_json() for fill in fills])
    else:
        report.show(fills, block, console())
    if args.plot:
        report.plot(fills, Path(args.plot))
    return 0


def _parse_block(args: argparse.Namespace) -> Block:
    from kernellab.gpumodel.grid_fill import Block

    if args.regs is not None and args.regs < 1:
        raise UserError(f"--regs {args.regs}: a thread has at least 1 register")
    takes_all = args.matmul is not None and args.threads is args.regs is None and not args.shared
    return Block(
        threads=_THREADS if args.threads is None else args.threads,
        registers=None if takes_all else _REGISTERS if args.regs is None else args.regs,
        shared_bytes=args.shared,
        tile=args.tile,
    )


def _parse_grids(args: argparse.Namespace) -> list[int | Tiling]:
    from kernellab.declaration.case_request import parse_sizes
    from kernellab.gpumodel.waves import Tiling

    if (args.blocks is None) == (args.matmul is None):
        raise UserError("name one grid: --blocks 120, --blocks 64:1024:4, or --matmul 4096x4096 --tile 128x256")
    if args.blocks is not None:
        if args.tile:
            raise UserError("--tile is for a matmul: --matmul 4096x4096 --tile 128x256")
        sizes = list(parse_sizes("blocks", args.blocks))
        if max(sizes) > _MOST_BLOCKS:
            raise UserError(f"--blocks {max(sizes)}: a grid has at most {_MOST_BLOCKS} along its first dim")
        return list(sizes)
    if not args.tile:
        raise UserError("--matmul needs the tile of a block: --tile 128x256")
    tile_m, tile_n = _parse_pair("tile", args.tile)
    if "x" in args.matmul and ":" not in args.matmul:
        return [Tiling(*_parse_pair("matmul", args.matmul), tile_m, tile_n)]
    return [Tiling(size, size, tile_m, tile_n) for size in parse_sizes("matmul", args.matmul)]


def _parse_pair(name: str, text: str) -> tuple[int, int]:
    try:
        first, second = map(int, text.lower().split("x"))
    except ValueError:
        raise UserError(f"cannot read --{name} {text!r}: write two sizes, 128x256") from None
    return first, second


def _find_gpus(names: str | None) -> list[Gpu]:
    from kernellab.machine.chips import chip
    from kernellab.running.parent.device import describe_gpu

    if names is not None:
        return [_find_gpu(name) for name in split_commas(names)]
    here = describe_gpu()
    if here is None:
        raise UserError("there is no GPU here: --gpu a100 names one; klab device --list shows all of the database")
    return [Gpu(None, here["name"], [], chip(here["arch"]), here["sms"])]


def _find_gpu(name: str) -> Gpu:
    from kernellab.machine import gpus

    gpu = gpus.gpu(name)
    return Gpu(name, gpu.name, [other.name for other in gpus.variants(name)], gpu.chip, gpu.sms)


def _fill(gpu: Gpu, grids: list[int | Tiling], block: Block, args: argparse.Namespace) -> GpuFill:
    """How each grid of such blocks fills a GPU."""
    from kernellab.gpumodel.grid_fill import GpuFill
    from kernellab.gpumodel.occupancy import occupancy

    registers = gpu.chip.registers_per_thread if block.registers is None else block.registers
    per_sm = occupancy(gpu.chip, block.threads, registers, block.shared_bytes, args.cluster)
    doubts: list[str] = []
    fills = [_predict(grid, gpu, per_sm, args.ilp, args.cluster) for grid in grids]
    if args.measure:
        fills, doubts = _measure(fills, block.threads, gpu, per_sm)
    return GpuFill(gpu.requested, gpu.name, gpu.variants, gpu.chip, gpu.sms, per_sm, fills, doubts)


def _predict(grid: int | Tiling, gpu: Gpu, per_sm: Occupancy, ilp: int, cluster: int) -> GridFill:
    from kernellab.gpumodel.grid_fill import GridFill
    from kernellab.gpumodel.waves import BOUNDS, waves

    blocks = grid if isinstance(grid, int) else grid.blocks
    predictions = {
        bound: waves(blocks, gpu.sms, per_sm, gpu.chip, bound=bound, ilp=ilp, cluster=cluster) for bound in BOUNDS
    }
    tiling = None if isinstance(grid, int) else grid
    return GridFill(blocks=blocks, tiling=tiling, measured=None, **predictions)


def _measure(grids: list[GridFill], threads: int, gpu: Gpu, per_sm: Occupancy) -> tuple[list[GridFill], list[str]]:
    """The grids with `measured`, from compute-bound blocks of the same occupancy, and reasons for doubt."""
    from kernellab.gpumodel.grid_fill import MeasuredGrid
    from kernellab.gpumodel.occupancy import shared_bytes_for
    from kernellab.running.parent.device import time_grids

    # The kernel that is timed uses few registers. Shared memory limits it to the same number of blocks per SM.
    shared = shared_bytes_for(gpu.chip, threads, _REGISTERS, per_sm.blocks_per_sm)
    measurement = time_grids([grid.blocks for grid in grids], threads, shared, rounds=_ROUNDS)
    with_times = []
    for grid, timed in zip(grids, measurement.grids, strict=True):
        ideal_ms = timed["blocks"] / gpu.sms * measurement.block_ms
        efficiency = ideal_ms / timed["ms"]
        measured = MeasuredGrid(timed["ms"], measurement.block_ms, efficiency)
        with_times.append(replace(grid, measured=measured))
    return with_times, measurement.doubts
