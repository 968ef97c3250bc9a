"""What Nsight Compute counted of launches, as a table, beside the fewest bytes an op has to move. No words, no torch.

Percentages are relative to the GPU's maximum at the clock it ran at. A counter that was not collected is None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TypedDict, TypeVar

from kernellab.gpumodel.roofline import Ceilings, Cost, roofline
from kernellab.traces.ncu import Launch, Rule

_TIME = "gpu__time_duration.sum"
_READ, _WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
_COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
_MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
_DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
_ACHIEVED_OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
_THEORETICAL_OCCUPANCY = "sm__maximum_warps_per_active_cycle_pct"
_L2_HITS = "lts__t_sector_hit_rate.pct"
_WAVES = "launch__waves_per_multiprocessor"
_SMS = "device__attribute_multiprocessor_count"
# The metrics a profile asks for by name, so that the table is complete whatever the sections of a version contain.
METRICS = (
    _TIME,
    _READ,
    _WRITTEN,
    _COMPUTE,
    _MEMORY,
    _DRAM,
    _ACHIEVED_OCCUPANCY,
    _THEORETICAL_OCCUPANCY,
    _L2_HITS,
    _WAVES,
)
# The columns of the CSV, in order.
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
BUSY = 60.0  # percent from which on a unit limits a kernel, as in ncu's own rules
_SIMILAR = 5.0  # percent: two busy units closer than this limit a kernel together

_Number = TypeVar("_Number", int, float)


class RuleDocument(TypedDict):
    section: str
    name: str
    kind: str
    words: str
    scope: str
    percent: float | None


class LaunchDocument(TypedDict):
    estimated_speedup_percent: float | None
    function: str
    name: str
    duration_us: float | None
    possible_improvement_us: float | None
    compute_percent: float | None
    memory_percent: float | None
    dram_percent: float | None
    achieved_occupancy_percent: float | None
    theoretical_occupancy_percent: float | None
    l2_hit_percent: float | None
    registers: int | None
    grid: list[int]
    block: list[int]
    blocks: int
    threads: int
    dram_read_bytes: int | None
    dram_written_bytes: int | None
    waves: float | None
    sms: int | None
    limit: str | None
    rules: list[RuleDocument]


class ImplLaunchDocument(LaunchDocument):
    way: str  # the implementation's name


class ImplDocument(TypedDict):
    way: str  # the implementation's name
    time_us: float | None
    counted_bytes: int | None
    fewest_bytes: int | None
    counted_to_fewest: float | None
    peak_gbps: float | None
    roofline: dict[str, dict[str, object]]  # from `declared` bytes and from `counted` bytes
    kernels: list[ImplLaunchDocument]


def launch_counters(launch: Launch, rules: Sequence[Rule]) -> LaunchDocument:
    """The row of one launch. The possible saving is the largest estimate of any rule for the whole launch."""
    numbers, time_ns = launch.numbers, launch.numbers.get(_TIME)
    own_rules = [rule for rule in rules if rule.id == launch.id]
    estimates = [rule.percent for rule in own_rules if rule.percent is not None and rule.scope.lower() == "global"]
    percent = max(estimates, default=None)
    duration_us = None if time_ns is None else time_ns / 1e3
    return {
        "estimated_speedup_percent": percent,
        "function": launch.function,
        "name": launch.name,
        "duration_us": duration_us,
        "possible_improvement_us": None if percent is None or duration_us is None else duration_us * percent / 100,
        "compute_percent": numbers.get(_COMPUTE),
        "memory_percent": numbers.get(_MEMORY),
        "dram_percent": numbers.get(_DRAM),
        "achieved_occupancy_percent": numbers.get(_ACHIEVED_OCCUPANCY),
        "theoretical_occupancy_percent": numbers.get(_THEORETICAL_OCCUPANCY),
        "l2_hit_percent": numbers.get(_L2_HITS),
        "registers": _integer(numbers.get("launch__registers_per_thread")),
        "grid": list(launch.grid),
        "block": list(launch.block),
        "blocks": math.prod(launch.grid),
        "threads": math.prod(launch.block),
        "dram_read_bytes": _integer(numbers.get(_READ)),
        "dram_written_bytes": _integer(numbers.get(_WRITTEN)),
        "waves": numbers.get(_WAVES),
        "sms": _integer(numbers.get(_SMS)),
        "limit": limit(launch),
        "rules": [
            {
                "section": rule.section,
                "name": rule.name,
                "kind": rule.kind,
                "words": rule.words,
                "scope": rule.scope,
                "percent": rule.percent,
            }
            for rule in own_rules
        ],
    }


def limit(launch: Launch) -> str | None:
    """What limits a kernel: `blocks` (fewer than SMs), `memory`, `compute`, `both`, or `latency`."""
    compute, memory = launch.numbers.get(_COMPUTE), launch.numbers.get(_MEMORY)
    if compute is None or memory is None:
        return None
    if max(compute, memory) >= BUSY:
        if abs(compute - memory) < _SIMILAR:
            return "both"
        return "memory" if memory >= compute else "compute"
    return "blocks" if math.prod(launch.grid) < launch.numbers.get(_SMS, 0) else "latency"


def impl_counters(
    impl: str, launches: Sequence[Launch], rules: Sequence[Rule], cost: Cost | None, dtype: str
) -> ImplDocument:
    """One call of an implementation: its launches, and the bytes they moved beside the declared ones."""
    kernels: list[ImplLaunchDocument] = [{"way": impl, **launch_counters(launch, rules)} for launch in launches]
    read = _sum([kernel["dram_read_bytes"] for kernel in kernels])
    written = _sum([kernel["dram_written_bytes"] for kernel in kernels])
    time_us = _sum([kernel["duration_us"] for kernel in kernels])
    counted = None if read is None or written is None else read + written
    fewest = cost["bytes_read"] + cost["bytes_written"] if cost else None
    peak_gbps = _peak_gbps(launches)
    ceilings: Ceilings | None = None if peak_gbps is None else {"copy_gbps": peak_gbps, "matmul_tflops": {}}
    roofs: dict[str, dict[str, object]] = {}
    if cost:
        roofs["declared"] = asdict(roofline(cost, dtype, time_us, ceilings))
    if read is not None and written is not None:
        moved: Cost = {"bytes_read": read, "bytes_written": written, "flops": cost["flops"] if cost else {}}
        roofs["counted"] = asdict(roofline(moved, dtype, time_us, ceilings))
    return {
        "way": impl,
        "time_us": time_us,
        "counted_bytes": counted,
        "fewest_bytes": fewest,
        "counted_to_fewest": counted / fewest if counted is not None and fewest else None,
        "peak_gbps": peak_gbps,
        "roofline": roofs,
        "kernels": kernels,
    }


def sweep(launches: Sequence[Launch], rules: Sequence[Rule]) -> list[LaunchDocument]:
    """The same work with grids and blocks of several sizes: rows by block size, then by grid size."""
    rows = [launch_counters(launch, rules) for launch in launches]
    return sorted(rows, key=lambda row: (row["threads"], row["blocks"]))


def csv_rows(kernels: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """The rows of the CSV file: sizes as `128x1x1`, an empty cell for a counter that was not collected."""
    return [{column: _cell(row.get(column)) for column in COLUMNS} for row in kernels]


def _peak_gbps(launches: Sequence[Launch]) -> float | None:
    """The memory's peak rate, from the bytes the longest launch moved and the share of the peak ncu states for it."""
    timed = [launch.numbers for launch in launches if launch.numbers.get(_DRAM) and launch.numbers.get(_TIME)]
    for numbers in sorted(timed, key=lambda numbers: -numbers[_TIME]):
        moved = numbers.get(_READ, 0.0) + numbers.get(_WRITTEN, 0.0)
        if moved:
            return moved / numbers[_TIME] / (numbers[_DRAM] / 100)
    return None


def _sum(values: Sequence[_Number | None]) -> _Number | None:
    """None if a value is missing: the sum of the others would be taken for the whole."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers and len(numbers) == len(values) else None


def _integer(value: float | None) -> int | None:
    return None if value is None else round(value)


def _cell(value: object) -> object:
    if isinstance(value, list):
        return "x".join(map(str, value))
    return "" if value is None else round(value, 4) if isinstance(value, float) else value
