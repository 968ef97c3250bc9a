"""The panel: all timers side by side, each with what it measures, and what their differences show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernellab.record.derived import DerivedResult
from kernellab.record.statuses import RIGHT
from kernellab.record.timed_series import time_of
from kernellab.reporting.text import numbers
from kernellab.reporting.text.table import Column, Row, Table
from kernellab.timing.timers import TIMERS

_DATA = {"warm": "data in cache", "cold": "data in memory"}
_FLOOR = "a kernel that does nothing, timed the same way: a lower bound for any launch"
_FIRST_CALL = ("first call", "includes compiling, loading, allocating")
_FEWEST_GPU, _FEWEST_CPU = 3, 2  # series that make a panel


def table(group: Sequence[DerivedResult]) -> Table | None:
    """The panel of one op and case; None where its implementations were timed in too few series."""
    timed = _timed(group)
    fewest = _FEWEST_CPU if group[0]["case"]["device"] == "cpu" else _FEWEST_GPU
    if not timed or max(len(_forward_medians(r)) for r in timed) < fewest:
        return None
    return _table(timed)


def regimes(group: Sequence[DerivedResult]) -> list[str]:
    """What governs the time of each implementation."""
    lines = []
    for r in _timed(group):
        regimes = "; ".join(f"{regime['name']}: {regime['evidence']}" for regime in r["derived"]["regime"])
        lines.append(f"{r['impl']} is {regimes or 'not close to any limit these timers can detect'}")
    return lines


def _timed(group: Sequence[DerivedResult]) -> list[DerivedResult]:
    return [r for r in group if r["derived"]["at_case"]["status"] in RIGHT and _forward_medians(r)]


def _table(timed: Sequence[DerivedResult]) -> Table:
    columns = [
        Column("timer", "left"),
        *(Column(r["impl"]) for r in timed),
        Column("what it measures", "left", wrap_to=20, drop=1),
    ]
    rows = []
    for timer, cache, meaning in _meanings():
        medians = [_forward_medians(r).get((timer, cache)) for r in timed]
        if any(median is not None for median in medians):
            rows.append(Row([f"{timer}, {cache}", *map(_duration, medians), meaning]))
    for timer in TIMERS:
        floors = [_floor_us(r, timer) for r in timed]
        if any(floor is not None for floor in floors):
            rows.append(Row([f"{timer}, empty kernel", *map(_duration, floors), _FLOOR]))
    rows.append(Row([_FIRST_CALL[0], *(_duration(_first_call_us(r)) for r in timed), _FIRST_CALL[1]]))
    return Table(columns, rows)


def _meanings() -> Iterator[tuple[str, str, str]]:
    """Each timer and state of the cache with what it measures, from the least overhead in the number to the most."""
    for timer in sorted(TIMERS.values(), key=lambda timer: timer.overhead_rank):
        for cache in (cache for cache in _DATA if cache in timer.caches):
            data = f", {_DATA[cache]}" if "cold" in timer.caches else ""
            yield timer.name, cache, f"{timer.measures}{data}"


def _duration(us: float | None) -> str:
    return "–" if us is None else numbers.duration(us)


def _forward_medians(result: DerivedResult) -> dict[tuple[str | None, str | None], float]:
    """The median of each series of the forward pass, by timer and cache."""
    return {
        (entry["timer"], entry["cache"]): time_of(entry)["median_us"]
        for entry in result["times"]
        if entry["pass"] == "forward" and entry["samples_us"]
    }


def _floor_us(result: DerivedResult, timer: str) -> float | None:
    floors = (e.get("floor_us") for e in result["times"] if (e["timer"], e["cache"]) == (timer, "cold"))
    return next((floor for floor in floors if floor is not None), None)


def _first_call_us(result: DerivedResult) -> float | None:
    seconds = result["check"].get("first_call_s") if result["check"] else None
    return None if seconds is None else seconds * 1e6
