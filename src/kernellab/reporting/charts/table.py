"""A long sweep in the terminal: one table of rates, reasons once, and who is fastest where."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from kernellab.reporting.charts.series import Result, Sweep
from kernellab.reporting.text import numbers as words
from kernellab.stats import growth as scaling

COMPACT = 6  # a sweep of more sizes than this is shown as one table
_DOUBT = " ?"  # behind a number that is not to be trusted
_FASTEST = "fastest"  # the heading of the last column
_STRETCHES = 4  # beyond this many changes of the winner, sizes are counted, not listed


def show(sweep: Sweep, record: Mapping[str, Any], out: Console) -> None:
    """The table, then everything it has no room for, each thing once."""
    device = record["machine"].get("device", sweep.case["device"])
    unit = f", {sweep.unit}" if sweep.timed else ""
    out.print(Text.assemble((sweep.op, "bold"), f" · {sweep.label} · {device}{unit}"))
    columns = [way for way in sweep.ways if sweep.curve(way)]
    if len(columns) > 1:
        columns.append(_FASTEST)
    for part in _fitting(sweep, columns, out.width):
        out.print(_table(sweep, part))
    for line in _remarks(sweep, timing="time" in record["stages"]):
        out.print(line, soft_wrap=not out.is_terminal)
    out.print()


def _fitting(sweep: Sweep, columns: list[str], width: int) -> list[list[str]]:
    """The columns in as many tables, one below the other, as the screen's width makes necessary."""
    wide, parts = Console(width=1000), []
    left = list(columns)
    while left:
        count = len(left)
        while count > 1 and Measurement.get(wide, wide.options, _table(sweep, left[:count])).maximum > width:
            count -= 1
        parts.append(left[:count])
        left = left[count:]
    return parts


def _table(sweep: Sweep, columns: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=True, padding=(0, 1), header_style="dim")
    for title in (sweep.dim, *columns):
        table.add_column(title, justify="left" if title == _FASTEST else "right", no_wrap=True)
    for size, group in sweep.groups.items():
        best = _best(group)
        cells = [Text(_named(best)) if c == _FASTEST else _cell(sweep, size, c, best) for c in columns]
        table.add_row(Text(str(size)), *cells)
    return table


def _cell(sweep: Sweep, size: int, way: str, best: Result | None) -> Text:
    result, point = sweep.result(size, way), sweep.curve(way).get(size)
    if result is None:
        return Text("")
    if point is None:
        return Text(_word(result), style="" if result["derived"]["status"] == "ok" else "red")
    shown = words.duration(point.value) if sweep.unit == "µs" else words.digits(point.value)
    doubted = result["derived"]["trust"]["verdict"] != "trusted"
    return Text(f"{shown}{_DOUBT if doubted else ''}", style="bold" if result is best else "")


def _word(result: Result) -> str:
    status = result["derived"]["status"]
    return {"ok": "right", "unknown": "cannot tell"}.get(status, str(status))


def _best(group: Iterable[Result]) -> Result | None:
    timed = [r for r in group if r["derived"]["status"] == "ok" and r["derived"]["time"] is not None]
    return min(timed, key=lambda r: float(r["derived"]["time"]["median_us"]), default=None)


def _named(best: Result | None) -> str:
    """The fastest way; with a second one where its lead is not resolved."""
    if best is None:
        return ""
    rival = best["derived"]["speedup"]["fastest_other"]
    if rival is None or rival["verdict"] == "faster":
        return str(best["impl"])
    return f"{best['impl']} ≈ {rival['over']}"


# What the table has no room for ------------------------------------------------------------------------


def _remarks(sweep: Sweep, *, timing: bool) -> list[Text]:
    """Statuses other than ok with their reasons, ways right and not timed, doubts, notes: one line for each."""
    widest = max(map(len, sweep.ways))
    lines = []
    for way in sweep.ways:
        found: dict[str, dict[int, str]] = {}
        notes: dict[str, None] = {}
        for size in sweep.groups:
            result = sweep.result(size, way)
            if result is None:
                continue
            derived = result["derived"]
            if derived["status"] != "ok":
                found.setdefault(_word(result), {})[size] = str(derived["reason"])
            elif derived["time"] is None:
                word, why = _untimed(result)
                found.setdefault(word, {})[size] = why if timing else ""
            told = [g["detail"] for g in result["guards"]] + list((result["check"] or {}).get("notes") or [])
            notes.update(dict.fromkeys(told))
        for word, reasons in found.items():
            lines.append(Text(f" {way:<{widest}}  {word} at {_sizes(sweep, list(reasons))}{_reason(reasons)}"))
        for name, details in _doubts(sweep, way).items():
            where = _sizes(sweep, list(details))
            lines.append(Text(f" {way:<{widest}}  ? {name} at {where}{_reason(details)}", style="yellow"))
        lines += [Text(f" {way:<{widest}}  note: {note}", style="yellow") for note in notes]
    return lines


def _doubts(sweep: Sweep, way: str) -> dict[str, dict[int, str]]:
    """Why a way's times are not to be trusted: each reason with its sizes, and the detail there."""
    found: dict[str, dict[int, str]] = {}
    for size in sweep.curve(way):
        result = sweep.result(size, way)
        assert result is not None
        for reason in result["derived"]["trust"]["reasons"]:
            found.setdefault(reason["name"], {})[size] = reason["detail"]
    return found


def _untimed(result: Result) -> tuple[str, str]:
    """What a right way without a time is called, and why it has none."""
    check = result["check"] or {}
    if (check.get("checked_at") or {}).get("interpreter"):
        return "right in Triton's interpreter", "interpreter time is not speed"
    return "right", "not timed"


def _reason(reasons: Mapping[int, str]) -> str:
    different = list(dict.fromkeys(reasons.values()))
    if not different[0]:
        return ""
    more = len(different) - 1
    return f": {different[0]}" + (f" (and {words.count(more, 'other reason')})" if more else "")


def _sizes(sweep: Sweep, sizes: list[int]) -> str:
    if len(sizes) == len(sweep.groups):
        return "every size"
    if len(sizes) <= 3:
        return f"{sweep.dim}={', '.join(map(str, sizes))}"
    return f"{len(sizes)} sizes from {sweep.dim}={sizes[0]} to {sizes[-1]}"


# The answer --------------------------------------------------------------------------------------------


def closing(sweep: Sweep) -> list[str]:
    """Which way is fastest over which sizes."""
    winners = {size: _named(_best(group)) for size, group in sweep.groups.items()}
    # Two that are not told apart are the same two whichever was ahead.
    winners = {size: " ≈ ".join(sorted(name.split(" ≈ "))) for size, name in winners.items() if name}
    if not winners:
        return []
    stretches = [(name, [s for s, _ in run]) for name, run in itertools.groupby(winners.items(), key=lambda w: w[1])]
    if len(stretches) <= _STRETCHES:
        said = [f"{_claim(name)} {_stretch(sweep, sizes, len(winners))}" for name, sizes in stretches]
    else:
        said = _counted(winners)
    return [f"{sweep.op} {sweep.label}: {'; '.join(said)}.{_nearest_the_limit(sweep)}"]


def _counted(winners: Mapping[int, str]) -> list[str]:
    """Where the lead changes too often to be told size by size."""
    won: dict[str, list[int]] = {}
    for size, name in winners.items():
        won.setdefault("" if " ≈ " in name else name, []).append(size)
    said = []
    for name, sizes in sorted(won.items(), key=lambda item: (not item[0], -len(item[1]))):
        between = f"{sizes[0]}" if len(sizes) == 1 else f"between {sizes[0]} and {sizes[-1]}"
        claim = f"{name} is fastest" if name else "no lead is resolved"
        said.append(f"{claim} at {len(sizes)} of {len(winners)} sizes, {between}")
    return said


def _nearest_the_limit(sweep: Sweep) -> str:
    shares = [(point.share, way, size) for way in sweep.ways for size, point in sweep.curve(way).items() if point.share]
    if not shares:
        return ""
    share, way, size = max(shares)
    result = sweep.result(size, way) or {}
    ceiling = "copy bandwidth" if result["derived"]["limit"]["bound"] == "memory" else "matmul rate"
    reached = f"{way} at {sweep.dim}={size} reaches {words.percent(share)} of this machine's {ceiling}"
    return f" At best, {reached}{words.doubt(share)}."


def _claim(name: str) -> str:
    return f"{name.replace(' ≈ ', ' and ')} are not told apart" if " ≈ " in name else f"{name} is fastest"


def _stretch(sweep: Sweep, sizes: list[int], of: int) -> str:
    if len(sizes) == of:
        return "at every size"
    return f"at {sweep.dim}={sizes[0]}" if len(sizes) == 1 else f"from {sweep.dim}={sizes[0]} to {sizes[-1]}"


def fits(sweep: Sweep) -> dict[str, scaling.Fit]:
    """How each way's time grows, for the ways and sizes that can tell."""
    found = {}
    for way in sweep.ways:
        times = {size: point.time for size, point in sweep.curve(way).items()}
        fit = scaling.fit((size, t["median_us"], t["low_us"], t["high_us"]) for size, t in times.items())
        if fit is not None:
            found[way] = fit
    return found


def growth(sweep: Sweep) -> list[str]:
    """`torch: time grows as N^0.12 (0.02 to 0.22) up to 512, then as N^2.98 (2.90 to 3.05)`."""
    lines = []
    for way, fit in fits(sweep).items():
        if fit.below is None or fit.above is None:
            said = _power(sweep.dim, fit.whole)
        else:
            said = f"{_power(sweep.dim, fit.below)} up to {fit.below.last:g}, then as {_power(sweep.dim, fit.above)}"
        lines.append(f"{sweep.op} {way}: time grows as {said}")
    return lines


def _power(dim: str, growth: scaling.Growth) -> str:
    exponent, low, high = (round(value, 2) + 0.0 for value in (growth.exponent, growth.low, growth.high))  # no −0.00
    return f"{dim}^{exponent:.2f} ({low:.2f} to {high:.2f})"
