"""How each number came about, for `--verbose`: lines of plain text about one result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernellab.record import verdict
from kernellab.reporting.text import numbers as words


def of(result: Mapping[str, Any]) -> list[str]:
    lines = [_series(entry) for entry in result["times"] if entry["samples_us"]]
    lines += [f"{e['timer']}: {e['status']}: {e['reason']}" for e in result["times"] if e["status"] == "skipped"]
    lines += [f"memory, {of}: {_memory(found)}" for of, found in result["memory"].items()]
    if result["built"]:
        lines += _built(result["built"])
    if result["inside"]:
        counted = result["inside"]["allocations"]
        what = f"{words.count(counted['count'], 'allocation')}, {words.memory(counted['bytes'])}"
        lines.append(f"inside a call: {what}")
    return lines


def _series(entry: Mapping[str, Any]) -> str:
    time = verdict.time_of(entry)
    assert time is not None
    low, high = (words.duration(time[end]) for end in ("low_us", "high_us"))
    said = [
        f"{entry['pass']}, {entry['timer']}, {entry['cache']}: {words.duration(time['median_us'])} ({low} – {high})",
        f"{words.count(time['rounds'], 'round')}, {words.count(len(entry['samples_us']), 'sample')}",
        f"{words.count(entry.get('calls') or 1, 'call')} a window",
    ]
    if entry.get("looks") is not None and entry.get("warmups"):
        ended = "decided" if entry["decided"] else "ended by time"
        said.append(
            f"{words.count(entry['warmups'], 'warm-up')}, {ended} after {words.count(len(entry['looks']), 'look')}"
        )
    said += _readings(entry.get("telemetry") or {})
    return "; ".join(said)


def _readings(columns: Mapping[str, Any]) -> list[str]:
    """The range of what was read of the machine meanwhile."""
    units = {"sm_mhz": "MHz", "power_w": "W", "temp_c": "°C", "mhz": "MHz"}
    said = []
    for key, unit in units.items():
        known = [value for value in columns.get(key) or () if value is not None]
        if known:
            low, high = f"{min(known):.4g}", f"{max(known):.4g}"
            said.append(f"{low} {unit}" if low == high else f"{low}–{high} {unit}")
    return said


def _memory(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name.removesuffix('_bytes')} {words.memory(size)}" for name, size in found.items())


def _built(built: Mapping[str, Any]) -> list[str]:
    lines = []
    if "compile" in built:
        c = built["compile"]
        lines.append(
            f"torch.compile: {c['seconds']:.1f} s, {words.count(c['graphs'], 'graph')}, "
            f"{words.count(c['recompiles'], 'recompile')}, {words.count(c['graph_breaks'], 'graph break')}"
        )
    for choice in built["tuned"]:
        config = ", ".join(f"{k}={v}" for k, v in choice["config"].items())
        lines.append(f"{choice['by']} chose for {choice['kernel']}: {config} ({choice['tried']} tried)")
    return lines
