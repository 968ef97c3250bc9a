"""`klab waves`: how a grid fills a GPU, for any GPU of the database; a range of grids is drawn."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.base.errors import UserError

if TYPE_CHECKING:
    from kernellab.gpumodel.occupancy import Occupancy
    from kernellab.gpumodel.waves import Tiling
    from kernellab.machine.chips import Chip

_THREADS, _REGISTERS = 256, 32
_ROUNDS = 9  # of --measure
_MOST_BLOCKS = 2**31 - 1  # along a grid's first dim


def arguments(sub: argparse.ArgumentParser, verb: str) -> None:
    sub.add_argument("--gpu", metavar="A,B", help="GPUs by name (default: the one present); klab device --list")
    sub.add_argument("--blocks", metavar="N", help="blocks of the grid: 120, or a range 64:1024:4")
    sub.add_argument("--threads", type=int, metavar="N", help=f"threads per block (default {_THREADS})")
    sub.add_argument("--regs", type=int, metavar="N", help=f"registers per thread (default {_REGISTERS})")
    sub.add_argument("--shared", type=int, default=0, metavar="BYTES", help="shared memory per block (default 0)")
    sub.add_argument("--cluster", type=int, default=1, metavar="N", help="blocks per cluster (default 1)")
    sub.add_argument("--matmul", metavar="MxN", help="a product in tiles: 4096x4096, or squares 512:8192:256")
    sub.add_argument("--tile", metavar="MxN", help="the tile of a block, with --matmul: 128x256")
    sub.add_argument("--ilp", type=int, default=4, metavar="N", help="independent instructions of a warp (default 4)")
    sub.add_argument("--measure", action="store_true", help="time such grids on the GPU present, beside the prediction")
    sub.add_argument("--plot", metavar="FILE", help="draw a range to FILE.png or FILE.svg")
    sub.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace, rest: list[str]) -> int:
    from kernellab.cli.options import dims_in
    from kernellab.reporting.terminal import waves as report
    from kernellab.reporting.text.console import console

    dims_in(rest)
    grids = _grids(args)
    if args.plot and (Path(args.plot).suffix not in (".png", ".svg") or len(grids) < 2):
        raise UserError(f"--plot {args.plot}: draws a range (--blocks 64:1024:4) to a file .png or .svg")
    if args.measure and args.gpu is not None:
        raise UserError("--measure times the GPU present: leave out --gpu")
    if args.measure and args.cluster > 1:
        raise UserError("--measure times grids without clusters: leave out --cluster")
    asked, found = _asked(args), []
    for gpu in _gpus(args.gpu):
        held = _held(asked, gpu["chip"], args.cluster)
        told = [_grid(g, gpu, held, args.ilp, args.cluster) for g in grids]
        doubts = _measure(told, asked["threads"], gpu, held) if args.measure else []
        found.append(_plain({**gpu, "occupancy": held, "grids": told, "doubts": doubts}))
    if args.json:
        print(json.dumps(found, indent=1))
    else:
        report.show(found, asked, console())
    if args.plot:
        report.plot(found, Path(args.plot))
    return 0


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    """The block that was asked about; `registers` None is one that fills them, as the sums of a large tile do."""
    if args.regs is not None and args.regs < 1:
        raise UserError(f"--regs {args.regs}: a thread has at least 1 register")
    fills = args.matmul is not None and args.threads is args.regs is None and not args.shared
    return {
        "threads": _THREADS if args.threads is None else args.threads,
        "registers": None if fills else _REGISTERS if args.regs is None else args.regs,
        "shared_bytes": args.shared,
        "tile": args.tile,
    }


def _held(asked: dict[str, Any], chip: Chip, cluster: int) -> Occupancy:
    from kernellab.gpumodel.occupancy import occupancy

    registers = chip.registers_per_thread if asked["registers"] is None else asked["registers"]
    return occupancy(chip, asked["threads"], registers, asked["shared_bytes"], cluster)


def _grids(args: argparse.Namespace) -> list[int | Tiling]:
    from kernellab.declaration.case_request import parse_sizes
    from kernellab.gpumodel.waves import Tiling

    if (args.blocks is None) == (args.matmul is None):
        raise UserError("which grid? --blocks 120, --blocks 64:1024:4, or --matmul 4096x4096 --tile 128x256")
    if args.blocks is not None:
        if args.tile:
            raise UserError("--tile is of a product: --matmul 4096x4096 --tile 128x256")
        sizes = list(parse_sizes("blocks", args.blocks))
        if max(sizes) > _MOST_BLOCKS:
            raise UserError(f"--blocks {max(sizes)}: a grid has at most {_MOST_BLOCKS} along its first dim")
        return list(sizes)
    if not args.tile:
        raise UserError("--matmul needs the tile of a block: --tile 128x256")
    tile_m, tile_n = _pair("tile", args.tile)
    if "x" in args.matmul and ":" not in args.matmul:
        return [Tiling(*_pair("matmul", args.matmul), tile_m, tile_n)]
    return [Tiling(size, size, tile_m, tile_n) for size in parse_sizes("matmul", args.matmul)]


def _pair(name: str, text: str) -> tuple[int, int]:
    try:
        first, second = map(int, text.lower().split("x"))
    except ValueError:
        raise UserError(f"cannot read --{name} {text!r}: two sizes, 128x256") from None
    return first, second


def _gpus(names: str | None) -> list[dict[str, Any]]:
    if names is not None:
        return [_known(name.strip()) for name in names.split(",")]
    from kernellab.machine.chips import chip
    from kernellab.running.parent.device import present

    here = present()
    if here is None:
        raise UserError("there is no GPU here: --gpu a100 names one; klab device --list shows those known")
    return [{"asked": None, "name": here["name"], "variants": [], "chip": chip(here["arch"]), "sms": here["sms"]}]


def _known(name: str) -> dict[str, Any]:
    from kernellab.machine import gpus

    found, others = gpus.gpu(name), [other.name for other in gpus.variants(name)]
    return {"asked": name, "name": found.name, "variants": others, "chip": found.chip, "sms": found.sms}


def _grid(grid: int | Tiling, gpu: dict[str, Any], held: Occupancy, ilp: int, cluster: int) -> dict[str, Any]:
    from kernellab.gpumodel.waves import BOUNDS, waves

    blocks = grid if isinstance(grid, int) else grid.blocks
    how: dict[str, Any] = {"ilp": ilp, "cluster": cluster}
    by = {bound: waves(blocks, gpu["sms"], held, gpu["chip"], bound=bound, **how) for bound in BOUNDS}
    tiling = None if isinstance(grid, int) else {**asdict(grid), "useful": grid.useful}
    told = {bound: asdict(found) for bound, found in by.items()}
    return {"blocks": blocks, "tiling": tiling, "measured": None, **told}


def _measure(grids: list[dict[str, Any]], threads: int, gpu: dict[str, Any], held: Occupancy) -> list[str]:
    """Adds `measured` to each grid: compute-bound blocks of which as many fit. Returns what speaks against it."""
    from kernellab.gpumodel.occupancy import shared_bytes_for
    from kernellab.running.parent.device import fill

    # The kernel that is timed has few registers: shared memory is asked for so that as many of its blocks fit.
    shared = shared_bytes_for(gpu["chip"], threads, _REGISTERS, held.blocks_per_sm)
    found = fill([grid["blocks"] for grid in grids], threads, shared, rounds=_ROUNDS)
    for grid, timed in zip(grids, found.grids, strict=True):
        ideal_ms = timed["blocks"] / gpu["sms"] * found.block_ms
        grid["measured"] = {"ms": timed["ms"], "block_ms": found.block_ms, "efficiency": ideal_ms / timed["ms"]}
    return found.doubts


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    chip: Chip = entry["chip"]
    facts = {"arch": chip.arch, "warps_per_sm": chip.warps_per_sm}
    return {**entry, "chip": facts, "occupancy": asdict(entry["occupancy"])}
