"""How grids fill GPUs: one grid in words, a range as a chart. Reads `gpumodel.grid_fill`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from kernellab.base.errors import UserError
from kernellab.gpumodel.grid_fill import Block, GpuFill, GridFill
from kernellab.gpumodel.occupancy import describe_limiters
from kernellab.gpumodel.waves import Tiling, Waves
from kernellab.reporting.charts import characters as chart
from kernellab.reporting.charts import files as curves
from kernellab.reporting.sentences.waves import describe_fill
from kernellab.reporting.text import numbers as words
from kernellab.reporting.text.table import Column, Row, Table, print_table

_CLOSE = 0.1  # relative to the measured efficiency
_DROP = 0.95  # of the efficiency of the next smaller grid


def show(entries: Sequence[GpuFill], block: Block, out: Console) -> None:
    """One grid in full for each GPU; of a range the saw-tooth, its best and its worst. `block` is the requested one."""
    if len(entries[0].grids) == 1:
        for entry in entries:
            _show_grid(entry, entry.grids[0], block, out)
        return
    heading = f"Predicted efficiency in % over {_axis(entries[0])}, if compute-bound; {_describe_block(block)}"
    out.print(Text(heading, style="bold"))
    chart.lines(_curves(entries), out)
    if missing := curves.missing_packages():
        out.print(Text(missing))
    for entry in entries:
        out.print(Text(f"{entry.name}, {entry.sms} SMs: an SM holds {_describe_occupancy(entry)}"))
        _show_variants(entry, out)
        for line in [*_extremes(entry), *_agreement(entry)]:
            out.print(Padding(Text(line), (0, 0, 0, 1), expand=False))
        out.print()


def plot(entries: Sequence[GpuFill], path: Path) -> None:
    try:
        from kernellab.reporting.charts import sawtooth
    except ImportError:
        raise UserError("--plot needs matplotlib: pip install 'kernellab[plots]'") from None
    try:
        sawtooth.save(_curves(entries), _axis(entries[0]), path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def _show_grid(entry: GpuFill, grid: GridFill, block: Block, out: Console) -> None:
    compute = grid.compute
    out.print(Text(f"{entry.name}: {describe_fill(compute)}", style="bold"))
    _show_variants(entry, out)
    facts = {
        **({"matmul": _describe_tiling(grid.tiling, grid.blocks)} if grid.tiling else {}),
        "block": _describe_block(block),
        "an SM holds": _describe_occupancy(entry),
        "to hold more": entry.occupancy.remedy,
        **({"clusters": _describe_clusters(compute)} if compute.cluster > 1 else {}),
        "SM balance": _balance(compute),
        "resident": _resident(compute),
    }
    columns = [Column("", "left", style="dim"), Column("", "left", wrap_to=30)]
    print_table(Table(columns, [Row(fact) for fact in facts.items()], header=False), out)
    out.print()
    print_table(_bounds_table(grid), out)
    out.print()
    for line in (*_agreement(replace(entry, grids=[grid])), _tail(compute), _better(compute)):
        out.print(Padding(Text(line), (0, 0, 0, 1), expand=False))
    out.print()


def _bounds_table(grid: GridFill) -> Table:
    rows = []
    for bound, waves in (("compute", grid.compute), ("latency", grid.latency), ("memory", grid.memory)):
        efficiency = words.percent(waves.efficiency)
        efficiency = f"≤ {efficiency}" if bound == "memory" else efficiency  # the model gives an upper bound
        rows.append(Row([bound, waves.governs, efficiency, waves.why]))
    columns = [Column("if bound by", "left"), Column("governs", "left"), Column("efficiency")]
    return Table([*columns, Column("because", "left", wrap_to=20)], rows)


def _balance(w: Waves) -> str:
    each = w.blocks / w.usable_sms
    tail = f"{words.count(w.tail_blocks, 'block')} in the last" if w.tail_blocks else "every one full"
    return f"{w.blocks} / {w.usable_sms} = {each:.2f}: {words.count(w.rounds, 'round')}, {tail}"


def _resident(w: Waves) -> str:
    room = w.usable_sms * w.blocks_per_sm
    ratio = f"{w.blocks} / {room} = {w.resident_waves:.2f}"
    if w.blocks <= room:
        return f"{ratio}: all run at once, there is room for {room}"
    rest = w.resident_tail_blocks
    return f"{ratio}: {-(-w.blocks // room)} waves of {room}" + (f", the last of {rest}" if rest else "")


def _tail(w: Waves) -> str:
    """Which SMs wait for which at the end, and when that does not matter."""
    if not w.tail_blocks:
        return "No tail: every SM gets the same number of blocks."
    more, fewer = w.rounds, w.rounds - 1
    busy, idle = w.tail_blocks, w.usable_sms - w.tail_blocks
    if not fewer:
        none = f"{words.count(idle, 'SM')} of {w.usable_sms} {_get(idle)} no block at all"
        return f"{none}: the grid is too small for this GPU."
    waits = "waits" if idle == 1 else "wait"
    busiest = f"{words.count(busy, 'SM')} {_get(busy)} {more} blocks"
    tail = f"Tail: {busiest}, {idle} {_get(idle)} {fewer} and {waits} at the end."
    if w.blocks_per_sm == 1:
        return f"{tail} Only one block fits on an SM, so nothing hides it."
    hidden = "all of them are resident at once" if w.blocks <= w.usable_sms * w.blocks_per_sm else "they overlap"
    return (
        f"{tail} Residency may hide it: {hidden}, and where a block alone leaves its SM idle half of the time, "
        "two take little longer than one. Where one block keeps its SM busy, nothing hides it and the tail costs "
        f"{words.percent(1 - w.efficiency)} of the time."
    )


def _get(count: int) -> str:
    return "gets" if count == 1 else "get"


def _better(w: Waves) -> str:
    sms = "the SMs" if w.usable_sms == w.sms else f"{w.usable_sms} SMs"
    grids = f"{w.nearest_multiple} blocks are the nearest multiple of {sms}"
    return f"Better grids: {grids}; from {w.four_per_sm} (4 × SMs) on a tail costs a fifth at most."


def _describe_occupancy(entry: GpuFill) -> str:
    occupancy = entry.occupancy
    blocks = words.count(occupancy.blocks_per_sm, "block")
    warps = f"{occupancy.warps_per_sm} of {entry.chip.warps_per_sm} warps"
    share, limiters = words.percent(occupancy.fraction), describe_limiters(occupancy.limiters)
    split = f"SRAM: {occupancy.shared_split_bytes // 1024} KB shared, {occupancy.l1_bytes // 1024} KB L1"
    return f"{blocks}, {warps} ({share}), limited by {limiters}; {split}"


def _describe_clusters(w: Waves) -> str:
    """How many SMs whole clusters can use, and what that assumes."""
    at_once = w.usable_sms * w.blocks_per_sm // w.cluster
    return (
        f"of {w.cluster} blocks, at most {at_once} of them at once, on {w.usable_sms} of {w.sms} SMs: each "
        "must fit into one group of SMs (GPC), so fewer may run; cudaOccupancyMaxActiveClusters returns how many"
    )


def _show_variants(entry: GpuFill, out: Console) -> None:
    if entry.variants:
        others = ", ".join(entry.variants)
        out.print(Text(f" {entry.requested_name} means the common variant; others: {others}", style="dim"))


def _describe_block(block: Block) -> str:
    if block.registers is None:
        return f"tiles of {block.tile}, assumed one per SM (--threads, --regs and --shared change that)"
    shared = f", {block.shared_bytes} bytes of shared memory" if block.shared_bytes else ""
    return f"{block.threads} threads, {block.registers} registers each{shared}"


def _describe_tiling(tiling: Tiling, blocks: int) -> str:
    tile = f"{tiling.tile_m}×{tiling.tile_n}"
    useful = "" if tiling.useful == 1 else f"; {words.percent(tiling.useful)} of their area is result"
    return f"{tiling.m}×{tiling.n} in {blocks} tiles of {tile}{useful}"


# Ranges ------------------------------------------------------------------------------------------------


def _axis(entry: GpuFill) -> str:
    return "size of a square matmul" if entry.grids[0].tiling else "blocks"


def _curves(entries: Sequence[GpuFill]) -> dict[str, dict[int, float]]:
    curves = {entry.name: _curve(entry) for entry in entries}
    measured = [entry for entry in entries if entry.grids[0].measured]
    return curves | {f"{entry.name}, measured": _measured_curve(entry) for entry in measured}


def _curve(entry: GpuFill) -> dict[int, float]:
    """Efficiency in percent, by blocks or by the size of a matmul; of a matmul only the useful part of its tiles."""
    return {_x(grid): 100 * grid.compute.efficiency * _useful(grid) for grid in entry.grids}


def _measured_curve(entry: GpuFill) -> dict[int, float]:
    return {_x(grid): 100 * grid.measured.efficiency * _useful(grid) for grid in entry.grids if grid.measured}


def _x(grid: GridFill) -> int:
    return grid.tiling.m if grid.tiling else grid.blocks


def _useful(grid: GridFill) -> float:
    return grid.tiling.useful if grid.tiling else 1.0


def _extremes(entry: GpuFill) -> list[str]:
    curve = _curve(entry)
    sizes, where = sorted(curve), "size {}" if entry.grids[0].tiling else "{} blocks"
    drops = [(a, b) for a, b in itertools.pairwise(sizes) if curve[b] < _DROP * curve[a]]
    worst, best = min(sizes, key=lambda s: (curve[s], -s)), max(sizes, key=lambda s: (curve[s], -s))
    ends = (f"{word} {curve[size]:.0f} % at {where.format(size)}" for word, size in (("best", best), ("worst", worst)))
    lines = [", ".join(ends)]
    if drops:
        deepest = sorted(sorted(drops, key=lambda d: curve[d[1]] / curve[d[0]])[:4])
        listed = ", ".join(f"{a} → {b} ({curve[a]:.0f} → {curve[b]:.0f} %)" for a, b in deepest)
        lines.append(f"{words.count(len(drops), 'drop')} by more than 5 %; the deepest: {listed}")
    return lines


def _agreement(entry: GpuFill) -> list[str]:
    """How close the measured efficiencies are to the predicted ones, where any were measured."""
    timed = [(grid, grid.measured) for grid in entry.grids if grid.measured]
    if not timed:
        return []
    errors = [abs(grid.compute.efficiency / measured.efficiency - 1) for grid, measured in timed]
    close, worst = sum(error <= _CLOSE for error in errors), errors.index(max(errors))
    farthest, its_time = timed[worst]
    predicted, reached = words.percent(farthest.compute.efficiency), words.percent(its_time.efficiency)
    where = f"at {words.count(farthest.blocks, 'block')} {predicted} were predicted and {reached} measured"
    within = f"within {words.percent(_CLOSE)} of the prediction at {close} of {words.count(len(timed), 'grid')}; "
    block = f"measured with compute-bound blocks of {timed[0][1].block_ms:.2f} ms: "
    doubts = [f"not to be trusted: {doubt}" for doubt in entry.doubts]
    return [block + (within if len(timed) > 1 else "") + where, *doubts]
