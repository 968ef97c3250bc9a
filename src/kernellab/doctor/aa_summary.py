"""Summarises A/A runs: false alarms, misses, widths of intervals, variation from run to run. No torch."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypedDict

from kernellab.declaration.documents import CaseJson
from kernellab.machine.variation import CaseVariation
from kernellab.record import verdict
from kernellab.record.journal import empty_record
from kernellab.record.schema import MachineJson, Record, Result
from kernellab.record.timed_series import TimedSeries, timed_series

IMPLS = {"a": 0, "b": 0, "plus1": 1, "plus2": 2, "plus5": 5}  # each implementation's extra work, in per cent


class Comparison(TypedDict):
    """How many times as fast as `a` an implementation was in one run, with its interval."""

    median: float
    low: float
    high: float
    verdict: str


class CaseRun(TypedDict):
    """One case in one run: the time of `a`, and every other implementation compared with it."""

    case: CaseJson
    timer: str | None
    cache: str | None
    median_us: float | None
    rounds: int
    decided: bool
    trust: str
    against_a: dict[str, Comparison | None]


class Difference(TypedDict):
    """Medians over runs: how much longer than `a`, and half the width of the ratio's interval."""

    measured: float | None
    half_width: float | None


class EqualWork(Difference):
    of: int
    covers: int  # runs whose interval covers 1
    same: int
    not_resolved: int
    false_alarms: int


class MoreWork(Difference):
    percent: int
    of: int
    found: int
    missed: int
    wrong_way: int


class CaseSummary(TypedDict):
    case: CaseJson
    timer: str | None
    cache: str | None
    median_us: float | None
    variation: float | None  # standard deviation over runs, relative to the mean
    equal: EqualWork
    more_work: list[MoreWork]
    trust: dict[str, int]
    runs: list[CaseRun]


class Summary(TypedDict):
    runs: int
    machine: str | None
    versions: Mapping[str, str | None] | None
    cases: list[CaseSummary]


def summarise(records: Sequence[Record]) -> Summary:
    """The summary of complete records, one per run."""
    runs_by_case: dict[str, list[CaseRun]] = {}
    for record in records:
        for results in verdict.groups(record["results"]):
            runs_by_case.setdefault(str(results[0]["case"]), []).append(_case_run(results, record["machine"]))
    first = records[0] if records else empty_record()
    return {
        "runs": len(records),
        "machine": first["machine"].get("class"),
        "versions": first["environment"].get("packages"),
        "cases": [_case_summary(runs) for runs in runs_by_case.values()],
    }


def variations(summary: Summary) -> list[CaseVariation]:
    """The variation of each case that was timed in more than one run."""
    return [
        {
            "case": case["case"],
            "timer": case["timer"],
            "cache": case["cache"],
            "median_us": case["median_us"],
            "variation": case["variation"],
        }
        for case in summary["cases"]
        if case["variation"] is not None
    ]


def _case_run(results: Sequence[Result], machine: MachineJson) -> CaseRun:
    series = verdict.main_series(results, "forward")
    timed = {r["impl"]: timed_series(r, series) for r in results}
    derived = verdict.derive({**empty_record(), "results": list(results), "machine": machine})["results"]
    trust = next((r["derived"]["trust"] for r in derived if r["impl"] == "a"), None)
    of_a = timed.get("a")
    time = of_a.time if of_a else None
    return {
        "case": results[0]["case"],
        "timer": series["timer"],
        "cache": series["cache"],
        "median_us": time["median_us"] if time else None,
        "rounds": time["rounds"] if time else 0,
        "decided": bool(time and time["decided"]),
        "trust": trust["verdict"] if trust else "not timed",
        "against_a": {impl: _compare(timed.get(impl), of_a) for impl in IMPLS if impl != "a"},
    }


def _compare(timed: TimedSeries | None, of_a: TimedSeries | None) -> Comparison | None:
    ratio = timed.over(of_a) if timed and of_a else None
    if ratio is None:
        return None
    return {"median": ratio["median"], "low": ratio["low"], "high": ratio["high"], "verdict": ratio["verdict"]}


def _case_summary(runs: Sequence[CaseRun]) -> CaseSummary:
    times = [run["median_us"] for run in runs if run["median_us"] is not None]
    equal = _comparisons(runs, "b")
    verdicts = Counter(comparison["verdict"] for comparison in equal)
    return {
        "case": runs[0]["case"],
        "timer": runs[0]["timer"],
        "cache": runs[0]["cache"],
        "median_us": statistics.median(times) if times else None,
        "variation": statistics.stdev(times) / statistics.mean(times) if len(times) > 1 else None,
        "equal": {
            "of": len(equal),
            "covers": sum(comparison["low"] <= 1 <= comparison["high"] for comparison in equal),
            "same": verdicts["same"],
            "not_resolved": verdicts["not resolved"],
            "false_alarms": verdicts["faster"] + verdicts["slower"],
            **_difference(equal),
        },
        "more_work": [_more_work(runs, impl, percent) for impl, percent in IMPLS.items() if percent],
        "trust": dict(Counter(run["trust"] for run in runs)),
        "runs": list(runs),
    }


def _more_work(runs: Sequence[CaseRun], impl: str, percent: int) -> MoreWork:
    comparisons = _comparisons(runs, impl)
    verdicts = Counter(comparison["verdict"] for comparison in comparisons)
    return {
        "percent": percent,
        "of": len(comparisons),
        "found": verdicts["slower"],
        "missed": verdicts["same"] + verdicts["not resolved"],
        "wrong_way": verdicts["faster"],
        **_difference(comparisons),
    }


def _comparisons(runs: Sequence[CaseRun], impl: str) -> list[Comparison]:
    return [comparison for run in runs if (comparison := run["against_a"][impl]) is not None]


def _difference(comparisons: Sequence[Comparison]) -> Difference:
    if not comparisons:
        return {"measured": None, "half_width": None}
    return {
        "measured": statistics.median(1 / comparison["median"] - 1 for comparison in comparisons),
        "half_width": statistics.median((comparison["high"] - comparison["low"]) / 2 for comparison in comparisons),
    }
