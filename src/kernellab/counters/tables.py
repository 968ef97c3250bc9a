"""Tables of what Nsight Compute counted: a row for each launch, and the bytes of a call beside the declared ones.

Percentages are of the GPU's peak at the clock it ran at. A counter that was not collected is None. No sentences, no
torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from kernellab.counters.ncu_pages import Launch, Rule
from kernellab.declaration.documents import CaseJson, CostJson
from kernellab.gpumodel.roofline import Roofline, roofline
from kernellab.machine.description import Ceilings
from kernellab.profiler.protocol import SkippedImpl

_TIME = "gpu__time_duration.sum"
_READ, _WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
_COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
_MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
_DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
_ACHIEVED_OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
_THEORETICAL_OCCUPANCY = "sm__maximum_warps_per_active_cycle_pct"
_L2_HITS = "lts__t_sector_hit_rate.pct"
_WAVES = "launch__waves_per_multiprocessor"
_REGISTERS = "launch__registers_per_thread"
_SMS = "device__attribute_multiprocessor_count"
# Requested by name, so that the table is complete whatever the sections of an ncu version contain.
METRICS = (
    *(_TIME, _READ, _WRITTEN, _COMPUTE, _MEMORY, _DRAM, _ACHIEVED_OCCUPANCY, _THEORETICAL_OCCUPANCY, _L2_HITS, _WAVES),
)
# The columns of counters.csv, in order.
COLUMNS = (
    "impl",
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
BUSY_PERCENT = 60.0  # a unit this busy limits a kernel; ncu's own rules use the same threshold
_ALIKE_PERCENT = 5.0  # two busy units closer to each other than this limit a kernel together


class RuleRow(TypedDict):
    """What one of ncu's rules says: a `ncu_pages.Rule` without the launch's id."""

    section: str
    name: str
    kind: str
    words: str
    scope: str
    percent: float | None


class KernelRow(TypedDict):
    """The counters of one launch. `impl`: the implementation it belongs to."""

    impl: NotRequired[str]
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
    limit: str | None  # see `limit_of`
    rules: list[RuleRow]


class RooflineRow(TypedDict):
    """A `gpumodel.roofline.Roofline`."""

    bytes: int
    flops: dict[str, float]
    intensity: float | None
    ridge: float | None
    bound: str | None
    roof_us: float | None
    fraction: float | None
    gbps: float | None
    tflops: float | None


class Rooflines(TypedDict, total=False):
    """The roofline from declared bytes, if the op declares them, and from counted ones, if they were counted."""

    declared: RooflineRow
    counted: RooflineRow


class ImplRow(TypedDict):
    """One call of an implementation: its launches, and the bytes they moved together. `impl`: the implementation."""

    impl: str
    time_us: float | None
    counted_bytes: int | None
    fewest_bytes: int | None
    counted_to_fewest: float | None
    peak_gbps: float | None
    roofline: Rooflines
    kernels: list[KernelRow]
    case: NotRequired[CaseJson]
    report: NotRequired[str]


class CountersDocument(TypedDict):
    """What `klab profile --with ncu` prints as JSON: `impls`, one for each implementation, or a `sweep` over grids."""

    op: str | None
    impls: NotRequired[list[ImplRow]]
    skipped: NotRequired[list[SkippedImpl]]
    case: NotRequired[CaseJson | None]
    sweep: NotRequired[list[KernelRow]]
    report: NotRequired[str]
    folder: NotRequired[str]


def kernel_row(launch: Launch, rules: Sequence[Rule], impl: str | None = None) -> KernelRow:
    """One launch. The possible improvement is the largest that any rule estimates for the launch as a whole."""
    numbers = launch.numbers
    time_ns = numbers.get(_TIME)
    launch_rules = [rule for rule in rules if rule.id == launch.id]
    gains = [rule.percent for rule in launch_rules if rule.percent is not None and rule.scope.lower() == "global"]
    gain = max(gains, default=None)
    duration_us = None if time_ns is None else time_ns / 1e3
    row: KernelRow = {
        "estimated_speedup_percent": gain,
        "function": launch.function,
        "name": launch.name,
        "duration_us": duration_us,
        "possible_improvement_us": None if gain is None or duration_us is None else duration_us * gain / 100,
        "compute_percent": numbers.get(_COMPUTE),
        "memory_percent": numbers.get(_MEMORY),
        "dram_percent": numbers.get(_DRAM),
        "achieved_occupancy_percent": numbers.get(_ACHIEVED_OCCUPANCY),
        "theoretical_occupancy_percent": numbers.get(_THEORETICAL_OCCUPANCY),
        "l2_hit_percent": numbers.get(_L2_HITS),
        "registers": _rounded(numbers.get(_REGISTERS)),
        "grid": list(launch.grid),
        "block": list(launch.block),
        "blocks": _product(launch.grid),
        "threads": _product(launch.block),
        "dram_read_bytes": _rounded(numbers.get(_READ)),
        "dram_written_bytes": _rounded(numbers.get(_WRITTEN)),
        "waves": numbers.get(_WAVES),
        "sms": _rounded(numbers.get(_SMS)),
        "limit": limit_of(launch),
        "rules": [_rule_row(rule) for rule in launch_rules],
    }
    return row if impl is None else {"impl": impl, **row}


def limit_of(launch: Launch) -> str | None:
    """What limits a kernel: `blocks` (fewer than multiprocessors), `memory`, `compute`, `both`, or `latency`."""
    compute, memory = launch.numbers.get(_COMPUTE), launch.numbers.get(_MEMORY)
    if compute is None or memory is None:
        return None
    if max(compute, memory) >= BUSY_PERCENT:
        if abs(compute - memory) < _ALIKE_PERCENT:
            return "both"
        return "memory" if memory >= compute else "compute"
    return "blocks" if _product(launch.grid) < launch.numbers.get(_SMS, 0) else "latency"


def impl_row(
    impl: str, launches: Sequence[Launch], rules: Sequence[Rule], cost: CostJson | None, dtype: str
) -> ImplRow:
    """One call of an implementation: its launches, and the bytes they moved together beside the declared ones."""
    kernels = [kernel_row(launch, rules, impl) for launch in launches]
    read = _total([row["dram_read_bytes"] for row in kernels])
    written = _total([row["dram_written_bytes"] for row in kernels])
    time_us = _total([row["duration_us"] for row in kernels])
    counted = None if read is None or written is None else int(read + written)
    fewest = cost["bytes_read"] + cost["bytes_written"] if cost else None
    peak_gbps = _peak_gbps(launches)
    ceilings: Ceilings | None = {"copy_gbps": peak_gbps, "matmul_tflops": {}} if peak_gbps else None
    rooflines: Rooflines = {}
    if cost:
        rooflines["declared"] = _roofline_row(roofline(cost, dtype, time_us, ceilings))
    if read is not None and written is not None:
        moved: CostJson = {
            "bytes_read": int(read),
            "bytes_written": int(written),
            "flops": cost["flops"] if cost else {},
        }
        rooflines["counted"] = _roofline_row(roofline(moved, dtype, time_us, ceilings))
    return {
        "impl": impl,
        "time_us": time_us,
        "counted_bytes": counted,
        "fewest_bytes": fewest,
        "counted_to_fewest": counted / fewest if counted is not None and fewest else None,
        "peak_gbps": peak_gbps,
        "roofline": rooflines,
        "kernels": kernels,
    }


def sweep_rows(launches: Sequence[Launch], rules: Sequence[Rule]) -> list[KernelRow]:
    """The same work with grids and blocks of several sizes, ordered by block, then by grid."""
    rows = [kernel_row(launch, rules) for launch in launches]
    return sorted(rows, key=lambda row: (row["threads"], row["blocks"]))


def csv_rows(kernels: Sequence[KernelRow]) -> list[dict[str, object]]:
    """Rows of counters.csv: sizes as `128x1x1`, an empty cell for a missing counter."""
    return [{column: _cell(row.get(column)) for column in COLUMNS} for row in kernels]


def _peak_gbps(launches: Sequence[Launch]) -> float | None:
    """The memory's peak bandwidth: that of the longest launch, divided by its share of the peak according to ncu."""
    timed = [launch.numbers for launch in launches if launch.numbers.get(_DRAM) and launch.numbers.get(_TIME)]
    for numbers in sorted(timed, key=lambda numbers: -numbers[_TIME]):
        moved = numbers.get(_READ, 0.0) + numbers.get(_WRITTEN, 0.0)
        if moved:
            return moved / numbers[_TIME] / (numbers[_DRAM] / 100)
    return None


def _roofline_row(roof: Roofline) -> RooflineRow:
    return {
        "bytes": roof.bytes,
        "flops": roof.flops,
        "intensity": roof.intensity,
        "ridge": roof.ridge,
        "bound": roof.bound,
        "roof_us": roof.roof_us,
        "fraction": roof.fraction,
        "gbps": roof.gbps,
        "tflops": roof.tflops,
    }


def _rule_row(rule: Rule) -> RuleRow:
    return {
        "section": rule.section,
        "name": rule.name,
        "kind": rule.kind,
        "words": rule.words,
        "scope": rule.scope,
        "percent": rule.percent,
    }


def _total(values: Sequence[float | None]) -> float | None:
    """The sum; None if a value is missing, because a partial sum would look complete."""
    present = [value for value in values if value is not None]
    return sum(present) if present and len(present) == len(values) else None


def _product(dims: tuple[int, int, int]) -> int:
    x, y, z = dims
    return x * y * z


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


def _cell(value: object) -> object:
    if isinstance(value, list):
        return "x".join(map(str, value))
    return "" if value is None else round(value, 4) if isinstance(value, float) else value
