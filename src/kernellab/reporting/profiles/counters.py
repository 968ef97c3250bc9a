"""What Nsight Compute counted, told: what holds each way, the bytes beside the declared ones, then a row per launch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from kernellab.analysis.counters import BUSY
from kernellab.base.text import shown
from kernellab.reporting.text.numbers import count, duration, memory, percent, ratio

_KINDS = {"OPT": "could gain", "WRN": "warns", "INF": "says"}
_SAME = 0.10  # counted bytes this near the declared ones are those
_ADVICE = 4  # findings shown of a launch


def lines(document: Mapping[str, Any], *, name_width: int) -> list[str]:
    """Of ways, or of a sweep."""
    if "sweep" in document:
        return [*_sweep_words(document["sweep"]), "", *_sweep_table(document["sweep"])]
    found: list[str] = []
    for way in document["ways"]:
        found += [*_way(way), ""]
    kernels = [row for way in document["ways"] for row in way["kernels"]]
    found += _table(kernels, name_width)
    for row in kernels:
        found += _findings(row, name_width)
    for one in document.get("skipped", []):
        found.append(f"{one['impl']} was not counted: {one['reason']}")
    return found


# A way -------------------------------------------------------------------------------------------------


def _way(way: Mapping[str, Any]) -> list[str]:
    kernels = way["kernels"]
    time_us = way["time_us"]
    took = f" in {duration(time_us)}" if time_us is not None else ""
    longest = max(kernels, key=lambda row: row["duration_us"] or 0.0)
    name = f"{way['way']}: " if way["way"] else ""
    found = [f"{name}{count(len(kernels), 'kernel')}{took}; {_holds(longest)}"]
    found += [f"  {line}" for line in (_bytes(way), _roof(way)) if line]
    return found


def _holds(row: Mapping[str, Any]) -> str:
    what = f"{row['function']}, " if row["function"] else ""
    memory_percent, compute_percent = row["memory_percent"], row["compute_percent"]
    if row["limit"] is None:
        return f"{what}throughput was not counted"
    both = f"memory {memory_percent:.0f} %, compute {compute_percent:.0f} % of what they can"
    return f"{what}held by {_limit(row)} ({both})"


def _limit(row: Mapping[str, Any]) -> str:
    if row["limit"] == "blocks":
        return f"its grid: {row['sms'] - row['blocks']} of {row['sms']} multiprocessors have nothing to do"
    if row["limit"] == "latency":
        occupied = row["achieved_occupancy_percent"]
        full = f", occupancy {occupied:.0f} %" if occupied is not None else ""
        return f"waiting: neither memory nor arithmetic is at {BUSY:.0f} %{full}"
    if row["limit"] == "memory" and row["dram_percent"] is not None and 2 * row["dram_percent"] < row["memory_percent"]:
        return f"its caches and shared memory, DRAM being at {row['dram_percent']:.0f} %"
    return {"memory": "memory", "compute": "arithmetic", "both": "memory and arithmetic alike"}[row["limit"]]


def _bytes(way: Mapping[str, Any]) -> str:
    counted, fewest = way["counted_bytes"], way["fewest_bytes"]
    if counted is None:
        return "bytes of DRAM were not counted"
    if not fewest:
        return f"DRAM moved {memory(counted)}; the op declares no bytes to hold that against"
    share = way["counted_to_fewest"]
    if abs(share - 1) <= _SAME:
        judged = "as many as it must"
    elif share > 1:
        judged = f"{ratio(share)} times as many as it must"
    else:
        judged = "fewer than that: caches held the rest, or what was written still lay in them"
    return f"DRAM moved {memory(counted)}, declared are {memory(fewest)}: {judged}"


def _roof(way: Mapping[str, Any]) -> str:
    parts = []
    for which in ("counted", "declared"):
        roof = way["roofline"].get(which)
        if roof and roof["fraction"] is not None:
            parts.append(f"from {which} bytes {percent(roof['fraction'])} ({roof['gbps']:.0f} GB/s)")
    if not parts:
        return ""
    return f"of the roof, memory at {way['peak_gbps']:.0f} GB/s: {', '.join(parts)}"


def _findings(row: Mapping[str, Any], width: int) -> list[str]:
    """ncu's own words, those with the most to gain of the launch's time first."""
    said = sorted(row["rules"], key=lambda rule: (rule["kind"] != "OPT", not _whole(rule), -(rule["percent"] or 0.0)))
    if not said:
        return []
    found = ["", f"ncu on {shown(row['function'], width)}{' of ' + row['way'] if row['way'] else ''}:"]
    for rule in said[:_ADVICE]:
        gain = ""
        if rule["percent"] is not None:
            of = "of its time" if _whole(rule) else "of what one unit does"
            gain = f", {rule['percent']:.3g} % {of}"
        found.append(f"  {rule['name']} {_KINDS.get(rule['kind'], rule['kind'])}{gain}: {rule['words']}")
    if len(said) > _ADVICE:
        found.append(f"  and {len(said) - _ADVICE} more in counters.json")
    return found


def _whole(rule: Mapping[str, Any]) -> bool:
    return rule["percent"] is not None and rule["scope"].lower() == "global"


def _table(kernels: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    heads = ["est. gain", "saves", "time", "compute", "memory", "registers", "grid", "block", "occupancy", "kernel"]
    rows = [heads]
    for row in kernels:
        rows.append(
            [
                _percent(row["estimated_speedup_percent"]),
                _time(row["possible_improvement_us"]),
                _time(row["duration_us"]),
                _percent(row["compute_percent"]),
                _percent(row["memory_percent"]),
                "–" if row["registers"] is None else str(row["registers"]),
                _size(row["grid"]),
                _size(row["block"]),
                f"{_percent(row['achieved_occupancy_percent'])} of {_percent(row['theoretical_occupancy_percent'])}",
                shown(row["name"], width),
            ]
        )
    return _columns(rows)


# A sweep -----------------------------------------------------------------------------------------------


def _sweep_words(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    found = []
    for threads in dict.fromkeys(row["threads"] for row in rows):
        of = [row for row in rows if row["threads"] == threads]
        first, last = of[0], of[-1]
        if len(of) < 2 or any(row["limit"] is None for row in (first, last)):
            continue
        found.append(
            f"Blocks of {threads}: from {count(first['blocks'], 'block')} to {last['blocks']} "
            f"memory throughput {_moves(of, 'memory_percent')}, compute {_moves(of, 'compute_percent')}"
        )
        for limit, rows_held in itertools.groupby(of, key=lambda row: row["limit"]):
            if limit is not None:
                row = next(rows_held)
                found.append(f"  from {count(row['blocks'], 'block')} on, held by {_limit(row)}")
    timed = [row for row in rows if row["duration_us"]]
    if len(timed) > 1:
        best = min(timed, key=lambda row: row["duration_us"])
        worst = max(timed, key=lambda row: row["duration_us"])
        found.append(
            f"Fastest: {count(best['blocks'], 'block')} of {best['threads']}, {duration(best['duration_us'])}, "
            f"{ratio(worst['duration_us'] / best['duration_us'])} times as fast as "
            f"{count(worst['blocks'], 'block')} of {worst['threads']}"
        )
    return found or ["too little was counted to tell what the grid does"]


def _moves(rows: Sequence[Mapping[str, Any]], key: str) -> str:
    values = [row[key] for row in rows]
    first, last = values[0], values[-1]
    ends = f"from {first:.3g} % to {last:.3g} %"
    if any(value is None for value in values):
        return ends
    steps = [b - a for a, b in itertools.pairwise(values)]
    if all(step > 0 for step in steps):
        return f"rises {ends}"
    if all(step < 0 for step in steps):
        return f"falls {ends}"
    return f"goes {ends}, at most {max(values):.3g} %"


def _sweep_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    found = [["grid", "block", "time", "memory", "compute", "DRAM", "occupancy", "est. gain", "saves"]]
    for row in rows:
        found.append(
            [
                str(row["blocks"]),
                str(row["threads"]),
                _time(row["duration_us"]),
                _percent(row["memory_percent"]),
                _percent(row["compute_percent"]),
                _percent(row["dram_percent"]),
                f"{_percent(row['achieved_occupancy_percent'])} of {_percent(row['theoretical_occupancy_percent'])}",
                _percent(row["estimated_speedup_percent"]),
                _time(row["possible_improvement_us"]),
            ]
        )
    return _columns(found)


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Numbers to the right; the last column to the left where it holds names."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    left = rows[0][-1] == "kernel"
    found = []
    for row in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)]
        if left:
            cells[-1] = row[-1]
        found.append("  ".join(cells))
    return found


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g} %"


def _time(us: float | None) -> str:
    return "–" if us is None else duration(us)


def _size(dims: Sequence[int]) -> str:
    """`128`, `16×16`: without the ones at its end."""
    x, y, z = dims
    return "×".join(map(str, (x, y, z) if z != 1 else (x, y) if y != 1 else (x,)))
