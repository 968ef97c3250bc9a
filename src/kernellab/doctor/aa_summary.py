"""What many runs of the A/A op come to: false alarms, misses, interval widths, run-to-run variation. No torch."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kernellab.record import verdict

WAYS = {"a": 0, "b": 0, "plus1": 1, "plus2": 2, "plus5": 5}  # each way's surplus of work, in per cent

Record = Mapping[str, Any]


def summarise(records: Sequence[Record]) -> dict[str, Any]:
    """Of complete records, one per run: the machine, and what was found at each case."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        for results in verdict.groups(record):
            found.setdefault(str(results[0]["case"]), []).append(_observed(results, record["machine"]))
    first = records[0] if records else {"machine": {}, "environment": {}}
    return {
        "runs": len(records),
        "machine": first["machine"].get("class"),
        "versions": first["environment"].get("packages"),
        "cases": [_case(runs) for runs in found.values()],
    }


def variations(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is to be remembered of a summary: the variation of each case that has one."""
    keys = ("case", "timer", "cache", "median_us", "variation")
    return [{k: case[k] for k in keys} for case in summary["cases"] if case["variation"] is not None]


def _observed(results: Sequence[verdict.Result], machine: Mapping[str, Any]) -> dict[str, Any]:
    """What one run says of one case: the time of `a`, and every other way held against it."""
    series = verdict.main_series(results, "forward")
    entries = {r["impl"]: verdict.entry_of(r, series) for r in results}
    derived = verdict.derive({"results": results, "machine": machine})["results"]
    trusted = next((r["derived"]["trust"] for r in derived if r["impl"] == "a"), None)
    time = verdict.time_of(entries.get("a"))
    return {
        "case": results[0]["case"],
        "timer": series["timer"],
        "cache": series["cache"],
        "median_us": time["median_us"] if time else None,
        "rounds": time["rounds"] if time else 0,
        "decided": bool(time and time["decided"]),
        "trust": trusted["verdict"] if trusted else "not timed",
        "against_a": {name: verdict.compare(entries.get(name), entries.get("a")) for name in WAYS if name != "a"},
    }


def _case(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    times = [run["median_us"] for run in runs if run["median_us"] is not None]
    equal = _pairs(runs, "b")
    verdicts = Counter(pair["verdict"] for pair in equal)
    return {
        **{k: runs[0][k] for k in ("case", "timer", "cache")},
        "median_us": statistics.median(times) if times else None,
        "variation": statistics.stdev(times) / statistics.mean(times) if len(times) > 1 else None,
        "equal": {
            "of": len(equal),
            "covers": sum(pair["low"] <= 1 <= pair["high"] for pair in equal),
            "same": verdicts["same"],
            "not_resolved": verdicts["not resolved"],
            "false_alarms": verdicts["faster"] + verdicts["slower"],
            **_measured(equal),
        },
        "more_work": [_more(runs, name, percent) for name, percent in WAYS.items() if percent],
        "trust": dict(Counter(run["trust"] for run in runs)),
        "runs": [dict(run) for run in runs],
    }


def _more(runs: Sequence[Mapping[str, Any]], name: str, percent: int) -> dict[str, Any]:
    pairs = _pairs(runs, name)
    verdicts = Counter(pair["verdict"] for pair in pairs)
    return {
        "percent": percent,
        "of": len(pairs),
        "found": verdicts["slower"],
        "missed": verdicts["same"] + verdicts["not resolved"],
        "wrong_way": verdicts["faster"],
        **_measured(pairs),
    }


def _pairs(runs: Sequence[Mapping[str, Any]], name: str) -> list[dict[str, Any]]:
    return [pair for run in runs if (pair := run["against_a"][name]) is not None]


def _measured(pairs: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Medians over runs: how much longer than `a`, and half the width of the ratio's interval."""
    if not pairs:
        return {"measured": None, "half_width": None}
    return {
        "measured": statistics.median(1 / pair["median"] - 1 for pair in pairs),
        "half_width": statistics.median((pair["high"] - pair["low"]) / 2 for pair in pairs),
    }
