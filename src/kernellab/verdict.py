"""Everything concluded from a record: statuses, times with intervals, speed-ups, shares of the limit.

Observations are stored, verdicts are computed here, by rules with a version. No torch.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

RULES = 1
CONFIDENCE = 0.99
_BUILT = ("compile", "triton", "cuda", "cpp")  # kinds whose first call builds something
FEWEST = 8  # samples below which no interval has 99 % confidence
BAD = frozenset({"wrong", "error", "crashed", "timeout", "oom"})
PRECISION = 0.005  # two ways within this of each other are the same

Result = Mapping[str, Any]


def derive(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with `derived` on each result."""
    results = record["results"]
    ceilings = record.get("machine", {}).get("ceilings")
    derived = {}
    for group in groups(record):
        for result in group:
            derived[id(result)] = _derive(result, group, ceilings)
    return {**record, "results": [{**r, "derived": derived[id(r)]} for r in results]}


def groups(record: Mapping[str, Any]) -> list[list[Result]]:
    """Results that were measured together: one op, one case."""
    found: dict[str, list[Result]] = {}
    for result in record["results"]:
        found.setdefault(f"{result['op']} {result['case']}", []).append(result)
    return list(found.values())


def _derive(result: Result, group: Sequence[Result], ceilings: Mapping[str, Any] | None) -> dict[str, Any]:
    status, reason = status_of(result)
    time = time_of(result)
    baseline = next((r for name in ("manual", "torch") for r in group if r["impl"] == name and samples(r)), None)
    rivals = [r for r in group if r is not result and samples(r) and status_of(r)[0] == "ok"]
    fastest = min(rivals, key=lambda r: statistics.median(samples(r)), default=None)
    timed = time is not None
    return {
        "status": status,
        "reason": reason,
        "time": time,
        "timing": None if timed or status != "ok" else _why_untimed(result),
        "build_s": _build_s(result, time),
        "speedup": {
            "baseline": _speedup(result, baseline) if timed else None,
            "fastest_other": _speedup(result, fastest) if timed else None,
        },
        "limit": _limit(result, time, ceilings),
        "rules": RULES,
    }


# Status ------------------------------------------------------------------------------------------------


def status_of(result: Result) -> tuple[str, str | None]:
    """`ok, wrong, error, crashed, timeout, oom, skipped, unknown`, and why."""
    check = result.get("check")
    if check is None:
        return "skipped", "not reached before the run ended"
    if check["status"] != "ok":
        return check["status"], check["reason"]
    for times in result["times"]:
        if times["status"] not in ("ok", "partial"):
            return times["status"], times["reason"]
    return "ok", None


def _why_untimed(result: Result) -> dict[str, str]:
    check = result.get("check") or {}
    if (check.get("checked_at") or {}).get("interpreter"):
        return {"status": "skipped", "reason": "checked in Triton's interpreter, whose time is not speed"}
    return {"status": "skipped", "reason": "timing was not asked for or not reached"}


def exit_code(record: Mapping[str, Any]) -> int:
    """0 all is well, 1 something is wrong, 3 cannot tell."""
    statuses = {status_of(r)[0] for r in record["results"]}
    if statuses & BAD:
        return 1
    if "unknown" in statuses or not statuses & {"ok"}:
        return 3
    return 0


# Times -------------------------------------------------------------------------------------------------


def forward_times(result: Result) -> Mapping[str, Any] | None:
    """The entry of `times` that holds a way's forward samples."""
    for times in result["times"]:
        if times["pass"] == "forward" and times["status"] in ("ok", "partial") and times["samples_us"]:
            found: Mapping[str, Any] = times
            return found
    return None


def samples(result: Result) -> list[float]:
    """The forward samples of a way, in microseconds."""
    times = forward_times(result)
    return list(times["samples_us"]) if times else []


def time_of(result: Result) -> dict[str, Any] | None:
    times = forward_times(result)
    if times is None:
        return None
    values = times["samples_us"]
    low, high = median_interval(values)
    return {
        "timer": times["timer"],
        "cache": times["cache"],
        "median_us": statistics.median(values),
        "low_us": low,
        "high_us": high,
        "rounds": len(values),
    }


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """An interval for the median from order statistics: exact for any distribution, however few the samples.

    Below eight samples not even the extremes reach 99 %; they are given, and the caller sees the count.
    """
    ordered = sorted(values)
    rank = _rank(len(ordered), confidence)
    return ordered[rank], ordered[len(ordered) - 1 - rank]


@lru_cache(maxsize=4096)
def _rank(n: int, confidence: float) -> int:
    """The largest k such that the k-th smallest and largest still enclose the median with this confidence.

    P(Binomial(n, ½) < k) must stay below half of what may be missed; whole numbers, so exact for any n.
    """
    allowed = (1 - Fraction(str(confidence))) / 2 * 2**n
    below, k = 0, 0
    while k < n // 2:
        below += math.comb(n, k)
        if below > allowed:
            break
        k += 1
    return max(0, k - 1)


def _speedup(result: Result, other: Result | None) -> dict[str, Any] | None:
    """How many times faster than another way, from the rounds both were in."""
    if other is None or other is result:
        return None
    ratios = [theirs / mine for mine, theirs in _paired(result, other) if mine > 0]
    if not ratios:
        return None
    low, high = median_interval(ratios)
    return {
        "over": other["impl"],
        "median": statistics.median(ratios),
        "low": low,
        "high": high,
        "verdict": compare_ratio(low, high) if len(ratios) >= FEWEST else "not resolved",
    }


def compare_ratio(low: float, high: float, precision: float = PRECISION) -> str:
    """faster, slower, same, or not resolved: from the interval on the paired ratio."""
    if low > 1:
        return "faster"
    if high < 1:
        return "slower"
    return "same" if low >= 1 - precision and high <= 1 + precision else "not resolved"


def _paired(a: Result, b: Result) -> list[tuple[float, float]]:
    """Samples of two ways that were taken in the same round."""

    def by_round(result: Result) -> dict[int, float]:
        times = forward_times(result)
        return dict(zip(times["rounds"], times["samples_us"], strict=True)) if times else {}

    first, second = by_round(a), by_round(b)
    return [(first[n], second[n]) for n in first if n in second]


def _build_s(result: Result, time: Mapping[str, Any] | None) -> float | None:
    """What the first call took beyond an ordinary one: compiling, building, loading."""
    first = (result.get("check") or {}).get("first_call_s")
    if first is None or result.get("kind") not in _BUILT:
        return None
    usual = time["median_us"] / 1e6 if time else 0.0
    return max(0.0, float(first) - usual)


# The limit ---------------------------------------------------------------------------------------------


def _limit(result: Result, time: Mapping[str, Any] | None, ceilings: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """How near the machine's measured ceilings: bytes over copy bandwidth, matmul flops over matmul rate.

    Flops of other units have no measured ceiling and bound nothing here.
    """
    cost = result.get("cost")
    if cost is None:
        return None
    moved = cost["bytes_read"] + cost["bytes_written"]
    matmul = cost["flops"].get("matmul", 0)
    out: dict[str, Any] = {"bytes": moved, "flops": cost["flops"], "bound": None, "roof_us": None, "fraction": None}
    if time is not None and time["median_us"] > 0:
        out["gbps"] = moved / time["median_us"] / 1e3
        out["tflops"] = matmul / time["median_us"] / 1e6 if matmul else None
    if not ceilings:
        return out
    roofs = {"memory": moved / ceilings["copy_gbps"] / 1e3}
    rate = ceilings["matmul_tflops"].get(result["case"]["dtype"])
    if matmul and rate:
        roofs["matmul"] = matmul / rate / 1e6
    elif matmul:
        return out  # a matmul whose rate was not measured: its memory roof alone would flatter nobody
    out["bound"] = max(roofs, key=lambda k: roofs[k])
    out["roof_us"] = roofs[out["bound"]]
    if time is not None and time["median_us"] > 0:
        out["fraction"] = out["roof_us"] / time["median_us"]
    return out
