"""The panel: every timer side by side, each with what it really measures, and what their differences say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernellab.record import verdict
from kernellab.reporting.text import numbers as words
from kernellab.timing.timers import TIMERS

_DATA = {"warm": "data in cache", "cold": "data in memory"}
_FLOOR_IS = "a kernel that does nothing, in the same windows: nothing launched like this is faster"
_FIRST = "the first call: compiling, loading, allocating"
_FEWEST = 3  # series from which on it is a panel


def show(group: Sequence[Mapping[str, Any]], out: Console) -> None:
    """Nothing, unless the ways were timed in several ways."""
    timed = [r for r in group if r["derived"]["status"] == "ok" and _forward(r)]
    if not timed or max(len(_forward(r)) for r in timed) < _FEWEST - (group[0]["case"]["device"] == "cpu"):
        return
    table = Table(box=None, pad_edge=True, padding=(0, 1), header_style="dim")
    table.add_column("timer", no_wrap=True)
    for r in timed:
        table.add_column(Text(r["impl"]), justify="right", no_wrap=True)
    table.add_column("what it measures")
    for key, what in _rows():
        cells = [_forward(r).get(key) for r in timed]
        if any(cell is not None for cell in cells):
            shown = ("–" if cell is None else words.duration(cell) for cell in cells)
            table.add_row(f"{key[0]}, {key[1]}", *shown, what)
    for timer in TIMERS:
        floors = [_floor(r, timer) for r in timed]
        if any(floor is not None for floor in floors):
            shown = ("–" if floor is None else words.duration(floor) for floor in floors)
            table.add_row(f"{timer}, empty kernel", *shown, _FLOOR_IS)
    table.add_row("first call", *(_first(r) for r in timed), _FIRST)
    out.print(table)
    for r in timed:
        said = "; ".join(f"{one['name']}: {one['evidence']}" for one in r["derived"]["regime"])
        out.print(Text(f" {r['impl']} is {said or 'near no limit that these timers show'}"))


def _forward(result: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    found = {}
    for entry in result["times"]:
        time = verdict.time_of(entry) if entry["pass"] == "forward" and entry["samples_us"] else None
        if time is not None:
            found[entry["timer"], entry["cache"]] = time["median_us"]
    return found


def _rows() -> Iterator[tuple[tuple[str, str], str]]:
    """Each timer and state of the cache with what it measures, from the least overhead in the number to the most."""
    for timer in sorted(TIMERS.values(), key=lambda timer: timer.overhead_rank):
        for cache in (cache for cache in _DATA if cache in timer.caches):
            data = f", {_DATA[cache]}" if "cold" in timer.caches else ""
            yield (timer.name, cache), f"{timer.measures}{data}"


def _floor(result: Mapping[str, Any], timer: str) -> float | None:
    found = (e.get("floor_us") for e in result["times"] if (e["timer"], e["cache"]) == (timer, "cold"))
    return next((f for f in found if f is not None), None)


def _first(result: Mapping[str, Any]) -> str:
    seconds = (result["check"] or {}).get("first_call_s")
    return "–" if seconds is None else words.duration(seconds * 1e6)
