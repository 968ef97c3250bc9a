"""How grids fill GPUs, told for one grid and drawn for a range. Reads plain data."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kernellab.base.errors import UserError
from kernellab.gpumodel.occupancy import describe_limiters
from kernellab.reporting.charts import characters as chart
from kernellab.reporting.charts import files as curves
from kernellab.reporting.text import numbers as words

Entry = Mapping[str, Any]

_BOUNDS = ("compute", "latency", "memory")
_CLOSE = 0.1


def show(entries: Sequence[Entry], asked: Mapping[str, Any], out: Console) -> None:
    """One grid in full for each GPU; of a range the saw-tooth, its best and its worst."""
    if len(entries[0]["grids"]) == 1:
        for entry in entries:
            _show_one(entry, entry["grids"][0], asked, out)
        return
    out.print(
        Text(f"Predicted efficiency in % over {_axis(entries[0])}, if compute-bound; {_kernel(asked)}", style="bold")
    )
    chart.lines(_curves(entries), out)
    if absent := curves.missing():
        out.print(Text(absent))
    for entry in entries:
        out.print(Text(f"{entry['name']}, {entry['sms']} SMs: an SM holds {_fits(entry)}"))
        _variants(entry, out)
        for line in [*_extremes(entry), *_agreement(entry)]:
            out.print(Padding(Text(line), (0, 0, 0, 1), expand=False))
        out.print()


def plot(entries: Sequence[Entry], path: Path) -> None:
    try:
        from kernellab.reporting.charts import sawtooth
    except ImportError:
        raise UserError("--plot needs matplotlib: pip install 'kernellab[plots]'") from None
    try:
        sawtooth.save(_curves(entries), _axis(entries[0]), path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def _show_one(entry: Entry, grid: Mapping[str, Any], asked: Mapping[str, Any], out: Console) -> None:
    compute = grid["compute"]
    out.print(Text(f"{entry['name']}: {_answer(compute)}", style="bold"))
    _variants(entry, out)
    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True, style="dim")
    facts.add_column()
    if grid["tiling"]:
        facts.add_row("product", _product(grid["tiling"], grid["blocks"]))
    facts.add_row("block", _kernel(asked))
    facts.add_row("an SM holds", _fits(entry))
    facts.add_row("to hold more", entry["occupancy"]["remedy"])
    if compute["cluster"] > 1:
        facts.add_row("clusters", _clusters(compute))
    facts.add_row("SM balance", _balance(compute))
    facts.add_row("resident", _resident(compute))
    out.print(Padding(facts, (0, 0, 0, 1), expand=False))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("if bound by", no_wrap=True)
    table.add_column("governs", no_wrap=True)
    table.add_column("efficiency", justify="right", no_wrap=True)
    table.add_column("because")
    for bound in _BOUNDS:
        found = grid[bound]
        share = words.percent(found["efficiency"])
        most = f"≤ {share}" if bound == "memory" else share
        table.add_row(bound, found["governs"], most, found["why"])
    out.print()
    out.print(Padding(table, (0, 0, 0, 1), expand=False))
    out.print()
    for line in (*_agreement({**entry, "grids": [grid]}), _tail(compute), _better(compute)):
        out.print(Padding(Text(line), (0, 0, 0, 1), expand=False))
    out.print()


def _answer(w: Mapping[str, Any]) -> str:
    some = f"{w['usable_sms']} of " if w["usable_sms"] < w["sms"] else ""
    over = f"{words.count(w['blocks'], 'block')} over {some}{w['sms']} SMs"
    rounds = words.count(w["rounds"], "wave")
    last = f", the last with {words.count(w['tail_blocks'], 'block')}" if w["tail_blocks"] else ", all full"
    if w["rounds"] == 1 and w["tail_blocks"]:
        last = f", {words.count(w['usable_sms'] - w['blocks'], 'SM')} idle"
    return f"{over}: {rounds}{last}; {words.percent(w['efficiency'])} efficient if compute-bound"


def _balance(w: Mapping[str, Any]) -> str:
    each = w["blocks"] / w["usable_sms"]
    tail = f"{words.count(w['tail_blocks'], 'block')} in the last" if w["tail_blocks"] else "every one full"
    return f"{w['blocks']} / {w['usable_sms']} = {each:.2f}: {words.count(w['rounds'], 'round')}, {tail}"


def _resident(w: Mapping[str, Any]) -> str:
    room = w["usable_sms"] * w["blocks_per_sm"]
    said = f"{w['blocks']} / {room} = {w['resident_waves']:.2f}"
    if w["blocks"] <= room:
        return f"{said}: all run at once, there is room for {room}"
    rest = w["resident_tail_blocks"]
    return f"{said}: {-(-w['blocks'] // room)} waves of {room}" + (f", the last of {rest}" if rest else "")


def _tail(w: Mapping[str, Any]) -> str:
    """Who waits for whom at the end, and when that does not matter."""
    if not w["tail_blocks"]:
        return "No tail: every SM gets the same number of blocks."
    more, fewer = w["rounds"], w["rounds"] - 1
    busy, idle = w["tail_blocks"], w["usable_sms"] - w["tail_blocks"]
    if not fewer:
        none = f"{words.count(idle, 'SM')} of {w['usable_sms']} {_get(idle)} no block at all"
        return f"{none}: the grid is too small for this GPU."
    waits = "waits" if idle == 1 else "wait"
    busiest = f"{words.count(busy, 'SM')} {_get(busy)} {more} blocks"
    said = f"Tail: {busiest}, {idle} {_get(idle)} {fewer} and {waits} in the end."
    if w["blocks_per_sm"] == 1:
        return f"{said} Only one block fits on an SM, so nothing hides it."
    hidden = (
        "all of them are resident at once" if w["blocks"] <= w["usable_sms"] * w["blocks_per_sm"] else "they overlap"
    )
    return (
        f"{said} Residency may hide it: {hidden}, and where a block alone leaves its SM idle half of the time, "
        "two take hardly longer than one. Where one block keeps its SM busy, they take turns and the tail costs "
        f"{words.percent(1 - w['efficiency'])} of the time."
    )


def _get(count: int) -> str:
    return "gets" if count == 1 else "get"


def _better(w: Mapping[str, Any]) -> str:
    those = "the SMs" if w["usable_sms"] == w["sms"] else f"{w['usable_sms']} SMs"
    grids = f"{w['nearest_multiple']} blocks are the nearest multiple of {those}"
    return f"Better grids: {grids}; from {w['four_per_sm']} (4 × SMs) on a tail costs a fifth at most."


def _fits(entry: Entry) -> str:
    held = entry["occupancy"]
    warps = f"{held['warps_per_sm']} of {entry['chip']['warps_per_sm']} warps"
    split = f"SRAM: {held['shared_split_bytes'] // 1024} KB shared, {held['l1_bytes'] // 1024} KB L1"
    blocks = words.count(held["blocks_per_sm"], "block")
    return f"{blocks}, {warps} ({words.percent(held['fraction'])}), limited by {describe_limiters(held['limiters'])}; {split}"


def _clusters(w: Mapping[str, Any]) -> str:
    """How many SMs whole clusters can take, and what that supposes."""
    at_once = w["usable_sms"] * w["blocks_per_sm"] // w["cluster"]
    return (
        f"of {w['cluster']} blocks, {at_once} of them at once at most, on {w['usable_sms']} of {w['sms']} SMs: each "
        "must find its places within one group of SMs (GPC), which may let fewer in; "
        "cudaOccupancyMaxActiveClusters tells"
    )


def _variants(entry: Entry, out: Console) -> None:
    if entry["variants"]:
        others = ", ".join(entry["variants"])
        out.print(Text(f" {entry['asked']} is taken for the common variant; others: {others}", style="dim"))


def _kernel(asked: Mapping[str, Any]) -> str:
    if asked["registers"] is None:
        return f"tiles of {asked['tile']}, taken to be one to an SM (--threads, --regs and --shared say otherwise)"
    shared = f", {asked['shared_bytes']} bytes of shared memory" if asked["shared_bytes"] else ""
    return f"{asked['threads']} threads, {asked['registers']} registers each{shared}"


def _product(tiling: Mapping[str, Any], blocks: int) -> str:
    tile = f"{tiling['tile_m']}×{tiling['tile_n']}"
    useful = "" if tiling["useful"] == 1 else f"; {words.percent(tiling['useful'])} of their area is result"
    return f"{tiling['m']}×{tiling['n']} in {blocks} tiles of {tile}{useful}"


# Ranges ------------------------------------------------------------------------------------------------


def _axis(entry: Entry) -> str:
    return "size of a square product" if entry["grids"][0]["tiling"] else "blocks"


def _curves(entries: Sequence[Entry]) -> dict[str, dict[int, float]]:
    curves = {entry["name"]: _curve(entry) for entry in entries}
    measured = [entry for entry in entries if entry["grids"][0]["measured"]]
    return curves | {f"{entry['name']}, measured": _curve(entry, "measured") for entry in measured}


def _curve(entry: Entry, which: str = "compute") -> dict[int, float]:
    """Efficiency in per cent, by blocks or by the size of a product; of a product the useful part."""
    return {_x(g): 100 * g[which]["efficiency"] * _useful(g) for g in entry["grids"]}


def _x(grid: Mapping[str, Any]) -> int:
    return int(grid["tiling"]["m"] if grid["tiling"] else grid["blocks"])


def _useful(grid: Mapping[str, Any]) -> float:
    return float(grid["tiling"]["useful"]) if grid["tiling"] else 1.0


def _extremes(entry: Entry) -> list[str]:
    curve = _curve(entry)
    sizes, where = sorted(curve), "size {}" if entry["grids"][0]["tiling"] else "{} blocks"
    drops = [(a, b) for a, b in itertools.pairwise(sizes) if curve[b] < 0.95 * curve[a]]
    worst, best = min(sizes, key=lambda s: (curve[s], -s)), max(sizes, key=lambda s: (curve[s], -s))
    ends = (f"{word} {curve[size]:.0f} % at {where.format(size)}" for word, size in (("best", best), ("worst", worst)))
    lines = [", ".join(ends)]
    if drops:
        deepest = sorted(sorted(drops, key=lambda d: curve[d[1]] / curve[d[0]])[:4])
        told = ", ".join(f"{a} → {b} ({curve[a]:.0f} → {curve[b]:.0f} %)" for a, b in deepest)
        lines.append(f"{words.count(len(drops), 'drop')} by more than a twentieth; the deepest: {told}")
    return lines


def _agreement(entry: Entry) -> list[str]:
    """How near what was measured came to the prediction, where something was."""
    timed = [grid for grid in entry["grids"] if grid["measured"]]
    if not timed:
        return []

    def off(grid: Mapping[str, Any]) -> float:
        return float(grid["compute"]["efficiency"] / grid["measured"]["efficiency"] - 1)

    close, far = sum(abs(off(grid)) <= _CLOSE for grid in timed), max(timed, key=lambda grid: abs(off(grid)))
    shares = [words.percent(far[which]["efficiency"]) for which in ("compute", "measured")]
    farthest = f"at {words.count(far['blocks'], 'block')} {shares[0]} were predicted and {shares[1]} measured"
    within = f"within {words.percent(_CLOSE)} of the prediction at {close} of {words.count(len(timed), 'grid')}; "
    block = f"measured with compute-bound blocks of {timed[0]['measured']['block_ms']:.2f} ms: "
    doubts = [f"not to be trusted: {doubt}" for doubt in entry["doubts"]]
    return [block + (within if len(timed) > 1 else "") + farthest, *doubts]
