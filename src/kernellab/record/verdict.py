"""Everything concluded from a record: statuses, times with intervals, speed-ups, shares of the limit.

Observations are stored, verdicts are computed here, by rules with a version. No torch.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kernellab.gpumodel.plausibility import why_implausible
from kernellab.gpumodel.regime import NEAR_LIMIT, is_cache_resident, is_launch_bound
from kernellab.gpumodel.roofline import Ceilings, roofline
from kernellab.machine.description import Peaks
from kernellab.record import batteries as tried
from kernellab.stats import trust
from kernellab.stats.intervals import FEWEST, PRECISION, by_round, compare_ratio, level, median_interval, paired_ratios
from kernellab.timing.timers import TIMERS, default_timer, is_duration

RULES = 4
_BUILT = ("compile", "triton", "cuda", "cpp")  # kinds whose first call builds something
BAD = tried.FAILED

_SERIES = ("pass", "timer", "cache")

Result = Mapping[str, Any]
Entry = Mapping[str, Any]  # of a result's `times`


def derive(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with `derived` on each result, and what each way made of its battery and the sanitizer."""
    machine = record.get("machine", {})
    derived = {}
    for results in groups(record):
        group = _Group(results, machine.get("ceilings"), machine.get("peaks"))
        for result in results:
            derived[id(result)] = group.derive(result)
    results = [{**r, "derived": derived[id(r)]} for r in record["results"]]
    summaries = {
        "batteries": tried.summaries(record.get("trials", ()), record.get("searches", ())),
        "sanitized": tried.sanitizer_verdicts(record.get("sanitized", ())),
    }
    return {**record, "results": results, **summaries}


def groups(record: Mapping[str, Any]) -> list[list[Result]]:
    """Results that were measured together: one op, one case."""
    found: dict[str, list[Result]] = {}
    for result in record["results"]:
        found.setdefault(f"{result['op']} {result['case']}", []).append(result)
    return list(found.values())


class _Group:
    """The results of one op and case, to be judged against each other."""

    def __init__(
        self,
        results: Sequence[Result],
        ceilings: Ceilings | None,
        peaks: Peaks | None,
    ) -> None:
        self.results, self.ceilings, self.peaks = results, ceilings, peaks
        self.passes = list(dict.fromkeys(e["pass"] for r in results for e in r["times"])) or ["forward"]
        self.series = {of: main_series(results, of) for of in self.passes}
        self.statuses = {id(r): self._status(r) for r in results}

    def derive(self, result: Result) -> dict[str, Any]:
        status, reason = self.statuses[id(result)]
        measured = {of: self._measured(result, of) for of in self.passes}
        main = measured[self.passes[0]]
        timed = main["time"] is not None
        return {
            "status": status,
            "reason": reason,
            **main,
            "timing": None if timed or status != "ok" else _why_untimed(result),
            "build_s": _build_s(result, main["time"]),
            "passes": measured,
            "regime": regime(result, main["limit"]),
            "rules": RULES,
        }

    def entry(self, result: Result, of: str) -> Entry | None:
        return entry_of(result, self.series[of])

    def _status(self, result: Result) -> tuple[str, str | None]:
        status, reason = status_of(result)
        for of in self.passes if status == "ok" else ():
            entry, cost = self.entry(result, of), result["cost"].get(of)
            if entry is not None and is_duration(entry["timer"]) and cost and not cost.get("assumed"):
                median = statistics.median(entry["samples_us"])
                said = why_implausible(cost, result["case"]["dtype"], median, entry["cache"], self.peaks)
                if said:
                    return "wrong", f"implausible: {said}"
        return status, reason

    def _measured(self, result: Result, of: str) -> dict[str, Any]:
        """What is concluded of one pass of a way."""
        entry = self.entry(result, of)
        time = time_of(entry)
        baseline = next(
            (r for name in ("manual", "torch") for r in self.results if r["impl"] == name and self.entry(r, of)), None
        )
        rivals = [
            (e, r)
            for r in self.results
            if r is not result and self.statuses[id(r)][0] == "ok" and (e := self.entry(r, of)) is not None
        ]
        fastest = min(rivals, key=lambda pair: statistics.median(pair[0]["samples_us"]), default=(None, None))[1]
        return {
            "time": time,
            "trust": self._trust(result, entry, time),
            "speedup": {
                "baseline": self._speedup(result, baseline, of),
                "fastest_other": self._speedup(result, fastest, of),
            },
            "limit": _limit(result, of, time, self.ceilings),
        }

    def _trust(self, result: Result, entry: Entry | None, time: Mapping[str, Any] | None) -> dict[str, Any] | None:
        if entry is None or time is None:
            return None
        found = trust.find_reasons(
            entry.get("telemetry"),
            list(by_round(entry["samples_us"], entry["rounds"]).values()),
            device=result["case"]["device"],
            steady=entry.get("steady"),
            interval=(time["low_us"], time["high_us"]),
        )
        return {"verdict": trust.summarise(found), "reasons": found}

    def _speedup(self, result: Result, other: Result | None, of: str) -> dict[str, Any] | None:
        """How many times faster than another way, from the rounds both were in."""
        if other is None or other is result:
            return None
        found = compare(self.entry(result, of), self.entry(other, of))
        return {"over": other["impl"], **found} if found else None


# Status ------------------------------------------------------------------------------------------------


def status_of(result: Result) -> tuple[str, str | None]:
    """`ok, wrong, error, crashed, timeout, oom, skipped, unknown`, and why."""
    check = result.get("check")
    if check is None:
        return "skipped", "not reached before the run ended"
    if check["status"] != "ok":
        return check["status"], check["reason"]
    gradients = result.get("gradients")
    if gradients is not None and gradients["status"] not in ("ok", "skipped"):
        return gradients["status"], f"its gradient: {gradients['reason']}"
    timed = {times["pass"] for times in result["times"] if times["samples_us"]}
    for times in faults(result):
        # A further series that fails does not make a good time bad; a wrong result does.
        if times["status"] == "wrong" or times["pass"] not in timed:
            return times["status"], times["reason"]
    return "ok", None


def faults(result: Result) -> list[Entry]:
    """Series that ended badly."""
    return [times for times in result["times"] if times["status"] not in ("ok", "partial", "skipped")]


def _why_untimed(result: Result) -> dict[str, str]:
    check = result.get("check") or {}
    if (check.get("checked_at") or {}).get("interpreter"):
        return {"status": "skipped", "reason": "checked in Triton's interpreter, whose time is not speed"}
    return {"status": "skipped", "reason": "timing was not asked for or not reached"}


def exit_code(record: Mapping[str, Any]) -> int:
    """0 all is well, 1 something is wrong, 3 cannot tell. Of a record with its verdicts."""
    statuses = {r["derived"]["status"] for r in record["results"]}
    others = {one["status"] for one in (*record["sanitized"], *record["batteries"])}
    if (statuses | others) & BAD:
        return 1
    if "unknown" in statuses | others or not statuses & {"ok"}:
        return 3
    return 0


# Times -------------------------------------------------------------------------------------------------


def main_series(results: Sequence[Result], of: str) -> dict[str, Any]:
    """The first series of a pass that any of the ways was timed in: what they are compared by."""
    entries = [e for r in results for e in r["times"] if e["pass"] == of and e["samples_us"]]
    entries.sort(key=lambda e: not is_duration(e["timer"]))
    return {k: entries[0][k] for k in _SERIES} if entries else {"pass": of, "timer": None, "cache": None}


def entry_of(result: Result, series: Mapping[str, Any]) -> Entry | None:
    """A way's samples in a series, if it has any."""
    for entry in result["times"]:
        if entry["samples_us"] and all(entry[k] == v for k, v in series.items()):
            found: Entry = entry
            return found
    return None


def samples(result: Result) -> list[float]:
    """The samples of a way's first series, in microseconds."""
    entry = next((e for e in result["times"] if e["samples_us"]), None)
    return list(entry["samples_us"]) if entry else []


def time_of(entry: Entry | None) -> dict[str, Any] | None:
    """The median over rounds of a series, with its interval."""
    if entry is None:
        return None
    values = list(by_round(entry["samples_us"], entry["rounds"]).values())
    low, high = median_interval(values, _error(entry))
    return {
        "timer": entry["timer"],
        "cache": entry["cache"],
        "median_us": statistics.median(values),
        "low_us": low,
        "high_us": high,
        "rounds": len(values),
        "decided": entry.get("decided"),
    }


def compare(mine: Entry | None, theirs: Entry | None) -> dict[str, Any] | None:
    """How many times faster one way's samples are than another's, from the rounds both were in."""
    if mine is None or theirs is None:
        return None
    ratios = paired_ratios(*(by_round(e["samples_us"], e["rounds"]) for e in (mine, theirs)))
    if not ratios:
        return None
    low, high = median_interval(ratios, _error(mine))
    said = compare_ratio(low, high, mine.get("precision") or PRECISION)
    return {
        "median": statistics.median(ratios),
        "low": low,
        "high": high,
        "verdict": said if len(ratios) >= FEWEST else "not resolved",
    }


def _error(entry: Entry) -> float:
    """The error level of a series' intervals: what its looks have not spent."""
    return level(len(entry.get("looks") or ()), decided=bool(entry.get("decided")))


def _build_s(result: Result, time: Mapping[str, Any] | None) -> float | None:
    """What the first call took beyond an ordinary one: compiling, building, loading."""
    first = (result.get("check") or {}).get("first_call_s")
    if first is None or result.get("kind") not in _BUILT:
        return None
    usual = time["median_us"] / 1e6 if time else 0.0
    return max(0.0, float(first) - usual)


# The limit ---------------------------------------------------------------------------------------------


def _limit(result: Result, of: str, time: Mapping[str, Any] | None, ceilings: Ceilings | None) -> dict[str, Any] | None:
    """How near the machine's measured ceilings."""
    cost = result["cost"].get(of)
    if cost is None:
        return None
    timed = time is not None and is_duration(time["timer"])
    found = roofline(cost, result["case"]["dtype"], time["median_us"] if time and timed else None, ceilings)
    return asdict(found)


# The regime --------------------------------------------------------------------------------------------


def regime(result: Result, limit: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """What governs a way's time, as far as its series tell: each a `name` and the `evidence`."""
    found = {}
    for entry in result["times"]:
        if entry["samples_us"] and entry["pass"] == "forward":
            found[entry["timer"], entry["cache"]] = statistics.median(entry["samples_us"])
    ranked = sorted(TIMERS.values(), key=lambda timer: timer.overhead_rank)
    on_gpu = [found.get((t.name, "cold")) for t in ranked if "cuda" in t.devices and not t.on_host]
    gpu = next((us for us in on_gpu if us is not None), None)
    host = next((found[t.name, "warm"] for t in ranked if not t.is_duration and (t.name, "warm") in found), None)
    said = []
    if gpu and host and is_launch_bound(host, gpu):
        said.append(("launch-bound", f"the host takes {host:.4g} µs to launch what the GPU does in {gpu:.4g} µs"))
    for device, where in (("cuda", "L2-resident"), ("cpu", "cache-resident")):
        cold, warm = (found.get((default_timer(device).name, cache)) for cache in ("cold", "warm"))
        if cold and warm and is_cache_resident(warm, cold):
            said.append((where, f"{warm:.4g} µs with its data in cache, {cold:.4g} µs without"))
    if limit and limit["fraction"] and limit["fraction"] >= NEAR_LIMIT:
        name = "memory-bound" if limit["bound"] == "memory" else "compute-bound"
        said.append((name, f"{100 * limit['fraction']:.0f} % of what this machine's {limit['bound']} limit allows"))
    return [{"name": name, "evidence": evidence} for name, evidence in said]
