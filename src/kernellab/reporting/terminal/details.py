"""How each time was measured, for `--verbose`: lines of plain text about one result."""

from __future__ import annotations

from kernellab.record import verdict
from kernellab.record.schema import BuiltJson, MemoryJson, Result, Telemetry, TimeSeries
from kernellab.reporting.text import numbers
from kernellab.reporting.text.numbers import count, duration

_CANDIDATES = 4  # of torch.compile's that are named: there may be dozens


def detail_lines(result: Result) -> list[str]:
    lines = [_series_line(entry) for entry in result["times"] if entry["samples_us"]]
    lines += [f"{e['timer']}: {e['status']}: {e['reason']}" for e in result["times"] if e["status"] == "skipped"]
    lines += [f"memory, {pass_name}: {_memory(sizes)}" for pass_name, sizes in result["memory"].items()]
    if result["built"]:
        lines += _build_lines(result["built"])
    allocations = (result["inside"] or {}).get("allocations")
    if allocations:
        size = allocations.get("bytes")
        total = f", {numbers.memory(size)}" if size is not None else ""
        lines.append(f"inside a call: {count(allocations['count'], 'allocation')}{total}")
    return lines


def _series_line(entry: TimeSeries) -> str:
    time = verdict.time_of(entry)
    assert time is not None
    low, high = duration(time["low_us"]), duration(time["high_us"])
    parts = [
        f"{entry['pass']}, {entry['timer']}, {entry['cache']}: {duration(time['median_us'])} ({low} – {high})",
        f"{count(time['rounds'], 'round')}, {count(len(entry['samples_us']), 'sample')}",
        f"{count(entry.get('calls') or 1, 'call')} a window",
    ]
    looks, warmups = entry.get("looks"), entry.get("warmups")
    if looks is not None and warmups:
        end = "decided" if entry.get("decided") else "out of time"
        parts.append(f"{count(warmups, 'warm-up')}, {end} after {count(len(looks), 'look')}")
    parts += _telemetry_ranges(entry.get("telemetry") or {})
    return "; ".join(parts)


def _telemetry_ranges(columns: Telemetry) -> list[str]:
    """The lowest and highest clock, power and temperature while the series was timed."""
    units = {"sm_mhz": "MHz", "power_w": "W", "temp_c": "°C", "mhz": "MHz"}
    ranges = []
    for key, unit in units.items():
        values = [value for value in columns.get(key) or () if isinstance(value, int | float)]
        if values:
            low, high = f"{min(values):.4g}", f"{max(values):.4g}"
            ranges.append(f"{low} {unit}" if low == high else f"{low}–{high} {unit}")
    return ranges


def _memory(sizes: MemoryJson) -> str:
    parts = [(name, size) for name, size in sizes.items() if isinstance(size, int)]
    return ", ".join(f"{name.removesuffix('_bytes')} {numbers.memory(size)}" for name, size in parts)


def _build_lines(built: BuiltJson) -> list[str]:
    lines = []
    compilation = built.get("compile")
    if compilation:
        lines.append(
            f"torch.compile: {compilation.get('seconds', 0.0):.1f} s, {count(compilation.get('graphs', 0), 'graph')}, "
            f"{count(compilation.get('recompiles', 0), 'recompile')}, "
            f"{count(compilation.get('graph_breaks', 0), 'graph break')}"
        )
    for choice in built["tuned"]:
        config = ", ".join(f"{name}={value}" for name, value in choice["config"].items())
        tried = f" ({choice['tried']} tried)" if choice.get("tried") is not None else ""
        lines.append(f"{choice.get('by') or 'a tuner'} chose for {choice['kernel']}: {config}{tried}")
        candidates = [f"{c['name']} {duration(c['us'])}" for c in choice.get("candidates", []) if c["us"]]
        if candidates:
            lines.append(f"its fastest candidates: {', '.join(candidates[:_CANDIDATES])}")
    return lines
