"""Times as a table, and what is doubtful about them in sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from kernellab.energy.documents import EnergyRatio
from kernellab.energy.verdicts import obstacles
from kernellab.machine.description import Ceilings
from kernellab.record.derived import (
    DerivedResult,
    LimitJson,
    PassVerdict,
    Speedup,
    Speedups,
    TimeVerdict,
    TrustVerdict,
)
from kernellab.record.verdict import HOLD, comparisons, comparisons_hold, own_doubts
from kernellab.reporting.text import numbers
from kernellab.reporting.text.table import Column, Row, Table
from kernellab.stats.intervals import FEWEST
from kernellab.stats.trust import percent
from kernellab.timing.timer import WARM
from kernellab.timing.timers import default_timer

_SAME_RATE = 0.01  # matmul rates that differ by less are not told apart


@dataclass(frozen=True)
class TimedResult:
    """A result, and the verdict of one pass in which it was timed."""

    result: DerivedResult
    verdict: PassVerdict
    time: TimeVerdict
    trust: TrustVerdict

    @property
    def impl(self) -> str:
        return self.result["impl"]

    @property
    def speedup(self) -> Speedups:
        return self.verdict["speedup"]

    @property
    def limit(self) -> LimitJson | None:
        return self.verdict["limit"]


def timed(result: DerivedResult, pass_verdict: PassVerdict) -> TimedResult | None:
    """None where the pass was not timed."""
    time, trust = pass_verdict["time"], pass_verdict["trust"]
    if time is None or trust is None:
        return None
    return TimedResult(result, pass_verdict, time, trust)


def timing_label(group: Sequence[DerivedResult]) -> str:
    """` · host timer, warm cache`; empty for times of the default timer with a cold cache."""
    time = next((time for result in group if (time := result["derived"]["time"])), None)
    if time is None:
        return ""
    labels = []
    if time["timer"] not in (None, default_timer(group[0]["case"]["device"]).name):
        labels.append(f"{time['timer']} timer")
    if time["cache"] == WARM:
        labels.append("warm cache")
    return f" · {', '.join(labels)}" if labels else ""


def trust_notes(rows: list[TimedResult]) -> list[str]:
    """Why times cannot be trusted, each reason once."""
    return _join_notes(rows, [(row.impl, r["name"], r["detail"]) for row in rows for r in row.trust["reasons"]])


def comparison_notes(rows: Sequence[TimedResult]) -> list[str]:
    """Which comparisons cannot be trusted and why; or that they hold, where the times alone cannot be trusted."""
    if comparisons_hold([row.verdict for row in rows]):
        return [HOLD]
    notes: dict[tuple[str, frozenset[str]], str] = {}  # each pair has two comparisons, and one note
    for row in rows:
        for speedup in comparisons(row.verdict):
            for reason in own_doubts(row.verdict, speedup):
                pair = frozenset((row.impl, speedup["over"]))
                note = f"{reason['name']} ({row.impl} over {speedup['over']}): {reason['detail']}"
                notes.setdefault((reason["name"], pair), note)
    return list(notes.values())


def limit_notes(rows: Sequence[TimedResult], ceilings: Ceilings | None) -> list[str]:
    """With which matmul rate times were compared, where it is not that at the highest clock."""
    limits = [row.limit for row in rows if row.limit and row.limit["bound"] == "matmul"]
    rates = [limit["matmul_tflops"] for limit in limits if limit["matmul_tflops"]]
    clocks = [limit["clock_mhz"] for limit in limits if limit["clock_mhz"]]
    highest = ceilings["matmul_tflops"].get(rows[0].result["case"]["dtype"]) if ceilings and rows else None
    if not clocks or not highest or all(abs(rate - highest) <= _SAME_RATE * highest for rate in rates):
        return []
    compared = f"{_range(rates, numbers.digits)} TFLOP/s at {_range(clocks, '{:.0f}'.format)} MHz"
    return [f"of matmul: of the rate at the clock while timing, {compared}; after a pause it is {highest:.4g}"]


def _range(values: Sequence[float], text: Callable[[float], str]) -> str:
    low, high = text(min(values)), text(max(values))
    return low if low == high else f"{low}–{high}"


def cross_check_notes(rows: list[TimedResult], pass_name: str) -> list[str]:
    """Which times no clock outside the worker has confirmed, and why."""
    notes = []
    for row in rows:
        series = (pass_name, row.time["timer"], row.time["cache"])
        for entry in row.result["times"]:
            check = entry.get("cross_check")
            if check and check["reason"] and (entry["pass"], entry["timer"], entry["cache"]) == series:
                notes.append((row.impl, check["verdict"], check["reason"]))
    return _join_notes(rows, notes)


def _join_notes(rows: list[TimedResult], notes: list[tuple[str, str, str]]) -> list[str]:
    """Lines from notes of implementation, name and detail: each name and detail once, with its implementations."""
    impls: dict[tuple[str, str], list[str]] = {}
    for impl, name, detail in notes:
        impls.setdefault((name, detail), []).append(impl)
    return [
        f"{name}{'' if len(names) == len(rows) else ' (' + ', '.join(names) + ')'}: {detail}"
        for (name, detail), names in impls.items()
    ]


@dataclass(frozen=True)
class TimeColumn:
    """A column of the table, and what it shows of a result. `drop`: see Column."""

    title: str
    cell: Callable[[TimedResult], str]
    drop: int = 0
    align: Literal["left", "right"] = "right"
    cut_to: int | None = None


def time_table(rows: Sequence[TimedResult]) -> Table:
    columns = time_columns(rows)
    return Table(
        [Column(c.title, c.align, c.drop, c.cut_to) for c in columns],
        [Row([c.cell(row) for c in columns], "" if position else "bold") for position, row in enumerate(rows)],
    )


def time_columns(rows: Sequence[TimedResult]) -> list[TimeColumn]:
    baselines = [baseline["over"] for r in rows if (baseline := r.speedup["baseline"])]
    bounds = [r.limit["bound"] for r in rows if r.limit]
    columns = [
        TimeColumn("impl", lambda r: r.impl, align="left", cut_to=12),
        TimeColumn("time", time_text),
        TimeColumn("99 %", spread_text, drop=4),
        TimeColumn("trust", lambda r: r.trust["verdict"], align="left"),
    ]
    if baselines:
        columns.append(TimeColumn(f"over {baselines[0]}", over_baseline, drop=1, align="left"))
    if len(rows) > 1:
        columns.append(TimeColumn("over the fastest other", over_fastest_other, drop=3, align="left"))
    if any(r.verdict["energy"] for r in rows):
        columns.append(TimeColumn("energy", energy_text))
    columns.append(TimeColumn("rate", rate_text, drop=2))
    if bounds and bounds[0]:
        columns.append(TimeColumn("of copy" if bounds[0] == "memory" else "of matmul", fraction_text))
    if any(r.result["kernels"] is not None for r in rows):
        columns.append(TimeColumn("kernels", _kernels, drop=5))
    return [*columns, TimeColumn("error", error_text, drop=7), TimeColumn("build", build_text, drop=6)]


def time_text(r: TimedResult) -> str:
    return numbers.duration(r.time["median_us"])


def spread_text(r: TimedResult) -> str:
    return numbers.spread(r.time["median_us"], r.time["low_us"], r.time["high_us"])


def over_baseline(r: TimedResult) -> str:
    speedup = r.speedup["baseline"]
    return f"{numbers.times(speedup['median'])} {_interval(r, speedup)}" if speedup else ""


def over_fastest_other(r: TimedResult) -> str:
    speedup = r.speedup["fastest_other"]
    if speedup is None:
        return ""
    unresolved = "too few rounds:" if too_few_rounds(r) else "not resolved:"
    phrases = {"same": "same as", "not resolved": unresolved}
    phrase = phrases.get(speedup["verdict"], numbers.times(speedup["median"]))
    return f"{phrase} {speedup['over']} {_interval(r, speedup)}"


def _interval(r: TimedResult, speedup: Speedup) -> str:
    doubt = numbers.DOUBT if own_doubts(r.verdict, speedup) else ""
    return f"({numbers.ratio(speedup['low'])}–{numbers.ratio(speedup['high'])}){doubt}"


def energy_text(r: TimedResult) -> str:
    """`412 mJ ±0.4 %`."""
    energy = r.verdict["energy"]
    if energy is None:
        return ""
    spread = numbers.spread(energy["median_j"], energy["low_j"], energy["high_j"])
    return f"{numbers.energy(energy['median_j'])} {spread}"


def energy_difference(ratio: EnergyRatio | None) -> str | None:
    """`20 % less energy`; None where no difference is resolved."""
    if ratio is None or ratio["verdict"] not in ("less", "more"):
        return None
    return f"{percent(abs(ratio['median'] - 1))} {ratio['verdict']} energy"


def energy_notes(rows: Sequence[TimedResult], pass_name: str) -> list[str]:
    """Why the energy of implementations is not known, or not comparable: each reason once."""
    notes = []
    for row in rows:
        entries = [entry.get("energy") for entry in row.result["times"] if entry["pass"] == pass_name]
        notes += [(row.impl, "energy is not measured", reason) for reason in obstacles(entries)]
        energy = row.verdict["energy"]
        if energy and energy["contended"]:
            notes.append((row.impl, "energies are not compared", energy["contended"]))
    return _join_notes(list(rows), notes)


def too_few_rounds(r: TimedResult) -> bool:
    """Whether its rounds are too few for an interval of 99 % confidence."""
    return r.time["rounds"] < FEWEST


def rate_text(r: TimedResult) -> str:
    if not r.limit or r.limit["gbps"] is None:
        return ""
    if r.limit["tflops"]:
        return f"{numbers.digits(r.limit['tflops'])} TFLOP/s"
    return f"{numbers.digits(r.limit['gbps'])} GB/s"


def fraction_text(r: TimedResult) -> str:
    return numbers.percent(r.limit["fraction"]) if r.limit and r.limit["fraction"] else ""


def error_text(r: TimedResult) -> str:
    check = r.result["check"]
    if draws(r.result):
        return f"{draws(r.result)} draws"
    errors = check.get("errors") if check else None
    return f"{errors['max']:.2g}" if errors and errors["max"] is not None else ""


def draws(result: DerivedResult) -> int | None:
    """Calls whose distribution was compared; None where values were."""
    return result["check"].get("draws") if result["check"] is not None else None


def build_text(r: TimedResult) -> str:
    seconds = r.result["derived"]["build_s"]
    return f"{seconds:.1f} s" if seconds is not None and seconds >= 0.05 else ""


def _kernels(r: TimedResult) -> str:
    kernels = r.result["kernels"]
    return "" if kernels is None else str(len(kernels))
