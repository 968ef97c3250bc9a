"""What Nsight Compute counted of launches, as a table; beside it what an op has to move at least. No words, no torch.

Percentages are of what the GPU could do at most at the clock it ran at. A counter that was not asked for is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kernellab.gpumodel.roofline import Ceilings, Cost, roofline
from kernellab.traces.ncu import Launch, Rule

_TIME = "gpu__time_duration.sum"
_READ, _WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
_DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
_PERCENT = {
    "compute_percent": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory_percent": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram_percent": _DRAM,
    "achieved_occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "theoretical_occupancy_percent": "sm__maximum_warps_per_active_cycle_pct",
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
}
_SMS = "device__attribute_multiprocessor_count"
# What a profile asks for by name, so that the table is whole whatever the sections of a version of ncu hold.
METRICS = (_TIME, _READ, _WRITTEN, *_PERCENT.values(), "launch__waves_per_multiprocessor")
# Columns of the CSV, in its order.
COLUMNS = (
    "way",
    "estimated_speedup_percent",
    "function",
    "name",
    "duration_us",
    "possible_improvement_us",
    "compute_percent",
    "memory_percent",
    "registers",
    "grid",
    "block",
    "blocks",
    "threads",
    "dram_percent",
    "dram_read_bytes",
    "dram_written_bytes",
    "achieved_occupancy_percent",
    "theoretical_occupancy_percent",
    "l2_hit_percent",
    "waves",
)
BUSY = 60.0  # percent from which on a unit is what holds a kernel, as ncu's own rules take it
_ALIKE = 5.0  # percent: nearer to each other, two busy units hold a kernel together


def kernel(launch: Launch, rules: Sequence[Rule]) -> dict[str, Any]:
    """One launch's row. What could be saved is the most any rule estimates for the launch as a whole."""
    numbers = launch.numbers
    time_ns = numbers.get(_TIME)
    own = [rule for rule in rules if rule.id == launch.id]
    whole = [rule.percent for rule in own if rule.percent is not None and rule.scope.lower() == "global"]
    percent = max(whole, default=None)
    duration_us = None if time_ns is None else time_ns / 1e3
    return {
        "estimated_speedup_percent": percent,
        "function": launch.function,
        "name": launch.name,
        "duration_us": duration_us,
        "possible_improvement_us": None if percent is None or duration_us is None else duration_us * percent / 100,
        **{ours: numbers.get(theirs) for ours, theirs in _PERCENT.items()},
        "registers": _whole(numbers.get("launch__registers_per_thread")),
        "grid": list(launch.grid),
        "block": list(launch.block),
        "blocks": launch.grid[0] * launch.grid[1] * launch.grid[2],
        "threads": launch.block[0] * launch.block[1] * launch.block[2],
        "dram_read_bytes": _whole(numbers.get(_READ)),
        "dram_written_bytes": _whole(numbers.get(_WRITTEN)),
        "waves": numbers.get("launch__waves_per_multiprocessor"),
        "sms": _whole(numbers.get(_SMS)),
        "limit": limit(launch),
        "rules": [_said(rule) for rule in own],
    }


def limit(launch: Launch) -> str | None:
    """What holds a kernel: `blocks` (fewer than multiprocessors), `memory`, `compute`, `both`, or `latency`."""
    compute, memory = (launch.numbers.get(_PERCENT[f"{what}_percent"]) for what in ("compute", "memory"))
    if compute is None or memory is None:
        return None
    if max(compute, memory) >= BUSY:
        if abs(compute - memory) < _ALIKE:
            return "both"
        return "memory" if memory >= compute else "compute"
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    return "blocks" if blocks < launch.numbers.get(_SMS, 0) else "latency"


def way(name: str, launches: Sequence[Launch], rules: Sequence[Rule], cost: Cost | None, dtype: str) -> dict[str, Any]:
    """One call of a way: its launches, and what they moved together beside what is declared."""
    kernels = [{"way": name, **kernel(launch, rules)} for launch in launches]
    read, written = (_sum(kernels, f"dram_{what}_bytes") for what in ("read", "written"))
    time_us = _sum(kernels, "duration_us")
    counted = None if read is None or written is None else read + written
    fewest = cost["bytes_read"] + cost["bytes_written"] if cost else None
    ceilings = _ceilings(launches)
    roofs = {}
    if cost:
        roofs["declared"] = asdict(roofline(cost, dtype, time_us, ceilings))
    if counted is not None:
        moved: Cost = {"bytes_read": read, "bytes_written": written, "flops": cost["flops"] if cost else {}}
        roofs["counted"] = asdict(roofline(moved, dtype, time_us, ceilings))
    return {
        "way": name,
        "time_us": time_us,
        "counted_bytes": counted,
        "fewest_bytes": fewest,
        "counted_to_fewest": counted / fewest if counted is not None and fewest else None,
        "peak_gbps": ceilings["copy_gbps"] if ceilings else None,
        "roofline": roofs,
        "kernels": kernels,
    }


def sweep(launches: Sequence[Launch], rules: Sequence[Rule]) -> list[dict[str, Any]]:
    """The same work by grids and blocks of several sizes: rows by block, within it by grid."""
    rows = [kernel(launch, rules) for launch in launches]
    return sorted(rows, key=lambda row: (row["threads"], row["blocks"]))


def csv_rows(kernels: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the CSV file: sizes as `128x1x1`, nothing for what was not counted."""
    return [{column: _cell(row.get(column)) for column in COLUMNS} for row in kernels]


def _ceilings(launches: Sequence[Launch]) -> Ceilings | None:
    """The memory's peak rate, from what the longest launch moved and the share of the peak ncu says that is."""
    timed = [one.numbers for one in launches if one.numbers.get(_DRAM) and one.numbers.get(_TIME)]
    for numbers in sorted(timed, key=lambda n: -n[_TIME]):
        moved = numbers.get(_READ, 0.0) + numbers.get(_WRITTEN, 0.0)
        if moved:
            return {"copy_gbps": moved / numbers[_TIME] / (numbers[_DRAM] / 100), "matmul_tflops": {}}
    return None


def _said(rule: Rule) -> dict[str, Any]:
    return {key: value for key, value in asdict(rule).items() if key != "id"}


def _sum(kernels: Sequence[Mapping[str, Any]], key: str) -> Any:
    """None where one is missing: the sum of the others would be taken for all."""
    values = [row[key] for row in kernels]
    return None if not values or any(value is None for value in values) else sum(values)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return "x".join(map(str, value))
    return "" if value is None else round(value, 4) if isinstance(value, float) else value
