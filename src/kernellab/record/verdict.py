"""All verdicts computed from a record: statuses, times with intervals, speed-ups, shares of the limit.

Observations are stored; verdicts are computed here, by rules with a version. No torch.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import TypeVar, cast

from kernellab.energy.documents import EnergyRatio
from kernellab.energy.verdicts import compare_energy, energy_of
from kernellab.gpumodel.plausibility import why_implausible
from kernellab.gpumodel.regime import NEAR_LIMIT, is_cache_resident, is_launch_bound
from kernellab.gpumodel.roofline import roofline
from kernellab.machine.description import Ceilings, Peaks
from kernellab.record import batteries, statuses
from kernellab.record.batteries import BatterySummary
from kernellab.record.derived import (
    Derived,
    DerivedRecord,
    LimitJson,
    PassVerdict,
    ReasonJson,
    RegimeJson,
    Speedup,
    TimeVerdict,
    TimingSkipped,
)
from kernellab.record.result_events import is_series
from kernellab.record.schema import Record, Result, SanitizerOutcome, SeriesJson, TimeSeries
from kernellab.record.timed_series import TimedSeries, timed_series
from kernellab.timing.timers import TIMERS, default_timer, is_duration

RULES = 7
HOLD = "comparisons hold: in every round both sides were affected alike"
_STATES = ("throttled", "clock-moved", "unsteady")  # reasons against times that comparisons may withstand
_BUILT = ("compile", "triton", "cuda", "cpp")  # kinds whose first call builds something

_AnyResult = TypeVar("_AnyResult", bound=Result)


def derive(record: Record) -> DerivedRecord:
    """The record with `derived` on each result, and with the verdicts on batteries and sanitizer runs."""
    machine = record.get("machine", {})
    summaries = batteries.summaries(record.get("trials", ()), record.get("searches", ()))
    sanitized = batteries.sanitizer_verdicts(record.get("sanitized", ()))
    beyond = _Beyond(summaries, sanitized)
    derived: dict[int, Derived] = {}
    for results in groups(record["results"]):
        group = _Group(results, beyond, machine.get("ceilings"), machine.get("peaks"))
        for result in results:
            derived[id(result)] = group.derive(result)
    results_with_verdicts = [{**result, "derived": derived[id(result)]} for result in record["results"]]
    verdicts = {"results": results_with_verdicts, "batteries": summaries, "sanitized": sanitized}
    return cast(DerivedRecord, {**record, **verdicts})


def groups(results: Sequence[_AnyResult]) -> list[list[_AnyResult]]:
    """Results that were measured together: one op, one case."""
    together: dict[str, list[_AnyResult]] = {}
    for result in results:
        together.setdefault(f"{result['op']} {result['case']}", []).append(result)
    return list(together.values())


class _Beyond:
    """What an implementation was examined for beyond its declared cases: the battery, and compute-sanitizer."""

    def __init__(self, summaries: Sequence[BatterySummary], sanitized: Sequence[SanitizerOutcome]) -> None:
        self._found: dict[tuple[str, str], list[tuple[str, str | None]]] = {}
        for summary in summaries:
            verdict = (summary["status"], batteries.failure_sentence(summary))
            self._found.setdefault((summary["op"], summary["impl"]), []).append(verdict)
        for outcome in sanitized:
            verdict = (outcome.get("status", statuses.UNKNOWN), outcome.get("reason"))
            self._found.setdefault((outcome["op"], outcome["impl"]), []).append(verdict)

    def worsen(self, result: Result, status: str, reason: str | None) -> tuple[str, str | None]:
        """The status at the declared case, or a worse one from beyond it. What was skipped stays so unless something
        failed elsewhere."""
        for other, why in self._found.get((result["op"], result["impl"]), ()):
            counts = status in statuses.RIGHT or (status == "skipped" and other in statuses.FAILED)
            if counts and statuses.worst((status, other)) != status:
                status, reason = other, why
        return status, reason


class _Group:
    """The results of one op and case, to be judged against each other."""

    def __init__(
        self,
        results: Sequence[Result],
        beyond: _Beyond,
        ceilings: Ceilings | None,
        peaks: Peaks | None,
    ) -> None:
        self.results, self.ceilings, self.peaks = results, ceilings, peaks
        self.passes = list(dict.fromkeys(e["pass"] for r in results for e in r["times"])) or ["forward"]
        self.series = {pass_name: main_series(results, pass_name) for pass_name in self.passes}
        self._timed_series = {
            (id(r), pass_name): timed_series(r, series) for r in results for pass_name, series in self.series.items()
        }
        self.at_case = {id(r): self._status_at_case(r) for r in results}
        self.statuses = {id(r): beyond.worsen(r, *self.at_case[id(r)]) for r in results}

    def derive(self, result: Result) -> Derived:
        status, reason = self.statuses[id(result)]
        status_at_case, reason_at_case = self.at_case[id(result)]
        passes = {pass_name: self._pass_verdict(result, pass_name) for pass_name in self.passes}
        main = passes[self.passes[0]]
        timed = main["time"] is not None
        return {
            "status": status,
            "reason": reason,
            "at_case": {"status": status_at_case, "reason": reason_at_case},
            "time": main["time"],
            "trust": main["trust"],
            "power": main["power"],
            "speedup": main["speedup"],
            "energy": main["energy"],
            "energy_ratio": main["energy_ratio"],
            "limit": main["limit"],
            "timing": None if timed or status_at_case not in statuses.RIGHT else _why_untimed(result),
            "build_s": _build_s(result, main["time"]),
            "passes": passes,
            "regime": regime(result, main["limit"]),
            "rules": RULES,
        }

    def entry(self, result: Result, pass_name: str) -> TimeSeries | None:
        return entry_of(result, self.series[pass_name])

    def _timed(self, result: Result, pass_name: str) -> TimedSeries | None:
        return self._timed_series[id(result), pass_name]

    def _status_at_case(self, result: Result) -> tuple[str, str | None]:
        status, reason = status_of(result)
        for pass_name in self.passes if status in statuses.RIGHT else ():
            entry, cost = self.entry(result, pass_name), result["cost"].get(pass_name)
            if entry is None or not is_duration(entry["timer"]) or not cost:
                continue
            median = statistics.median(entry["samples_us"])
            problem = why_implausible(cost, result["case"]["dtype"], median, entry["cache"], self.peaks)
            if problem and not cost.get("assumed"):
                return "wrong", f"implausible: {problem}"
            # Two passes may share data, so that their sum is no lower bound, however exact the parts are.
            if problem and pass_name != "both":
                keyword = "cost=" if pass_name == "forward" else "grad_cost="
                return "unknown", f"cannot tell: {problem}, if every byte is moved once: declare {keyword}"
        return status, reason

    def _is_right(self, result: Result) -> bool:
        status, _ = self.statuses[id(result)]
        return status in statuses.RIGHT

    def _pass_verdict(self, result: Result, pass_name: str) -> PassVerdict:
        """The verdicts on one pass of an implementation."""
        mine = self._timed(result, pass_name)
        time = mine.time if mine else None
        timed = [(r, series) for r in self.results if (series := self._timed(r, pass_name)) is not None]
        baseline = next((s for name in ("manual", "torch") for r, s in timed if r["impl"] == name), None)
        rivals = [series for r, series in timed if r is not result and self._is_right(r)]
        fastest = min(rivals, key=lambda series: statistics.median(series.entry["samples_us"]), default=None)
        return {
            "time": time,
            "trust": mine.trust if mine else None,
            "power": mine.power if mine else None,
            "speedup": {
                "baseline": self._speedup(mine, baseline),
                "fastest_other": self._speedup(mine, fastest),
            },
            "energy": energy_of(mine.energy) if mine else None,
            "energy_ratio": {
                "baseline": self._energy_ratio(mine, baseline),
                "fastest_other": self._energy_ratio(mine, fastest),
            },
            "limit": _limit(result, pass_name, mine, self.ceilings),
        }

    def _speedup(self, mine: TimedSeries | None, other: TimedSeries | None) -> Speedup | None:
        """How many times as fast as another implementation, from the rounds both were in."""
        return None if mine is None or other is None or other is mine else mine.over(other)

    def _energy_ratio(self, mine: TimedSeries | None, other: TimedSeries | None) -> EnergyRatio | None:
        if mine is None or other is None or other is mine:
            return None
        return compare_energy(mine.energy, other.energy, other.impl)


# Status ------------------------------------------------------------------------------------------------


def status_of(result: Result) -> tuple[str, str | None]:
    """The status at the declared case, and why it is not `ok`."""
    check = result.get("check")
    if check is None:
        return "skipped", "not reached before the run ended"
    if check["status"] not in statuses.RIGHT:
        return check["status"], check["reason"]
    gradients = result.get("gradients")
    if gradients is not None and gradients["status"] not in (*statuses.RIGHT, "skipped"):
        return gradients["status"], f"its gradient: {gradients['reason']}"
    timed = {times["pass"] for times in result["times"] if times["samples_us"]}
    for times in faults(result):
        # A pass that was timed stays valid if a further series fails, unless the results were wrong.
        if times["status"] == "wrong" or times["pass"] not in timed:
            return times["status"], times["reason"]
    if check["status"] == statuses.OK.name and gradients is not None and gradients["status"] in statuses.RIGHT:
        return gradients["status"], gradients["reason"] and f"its gradient: {gradients['reason']}"
    return check["status"], check.get("reason")


def faults(result: Result) -> list[TimeSeries]:
    """Series that ended in a failure."""
    return [times for times in result["times"] if times["status"] not in ("ok", "partial", "skipped")]


def _why_untimed(result: Result) -> TimingSkipped:
    check = result["check"]
    if check is not None and (checked_at := check.get("checked_at")) and checked_at["interpreter"]:
        return {"status": "skipped", "reason": "checked in Triton's interpreter, whose time says nothing about speed"}
    return {"status": "skipped", "reason": "timing was not requested or not reached"}


def exit_code(record: DerivedRecord, *, strict: bool = False) -> int:
    """0 all is well, 1 something is wrong, 3 cannot tell: the table of `statuses`. `strict`: imprecise is wrong."""
    examined = [r["derived"]["status"] for r in record["results"]]
    examined += [str(outcome.get("status")) for outcome in (*record["sanitized"], *record["batteries"])]
    return statuses.exit_code(examined, strict=strict)


# Times -------------------------------------------------------------------------------------------------


def main_series(results: Sequence[Result], pass_name: str) -> SeriesJson:
    """The first series of a pass that any implementation was timed in: implementations are compared by it."""
    entries = [e for r in results for e in r["times"] if e["pass"] == pass_name and e["samples_us"]]
    entries.sort(key=lambda e: not is_duration(e["timer"]))
    timer, cache = (entries[0]["timer"], entries[0]["cache"]) if entries else (None, None)
    return {"pass": pass_name, "timer": timer, "cache": cache}


def entry_of(result: Result, series: SeriesJson) -> TimeSeries | None:
    """An implementation's samples in a series, if it has any."""
    return next((entry for entry in result["times"] if entry["samples_us"] and is_series(entry, series)), None)


def samples(result: Result) -> list[float]:
    """The samples of an implementation's first series, in microseconds."""
    entry = next((e for e in result["times"] if e["samples_us"]), None)
    return list(entry["samples_us"]) if entry else []


def _build_s(result: Result, time: TimeVerdict | None) -> float | None:
    """Seconds of the first call beyond an ordinary one: compiling, building, loading."""
    first = result["check"].get("first_call_s") if result["check"] is not None else None
    if first is None or result.get("kind") not in _BUILT:
        return None
    usual = time["median_us"] / 1e6 if time else 0.0
    return max(0.0, first - usual)


# The limit ---------------------------------------------------------------------------------------------


def _limit(result: Result, pass_name: str, timed: TimedSeries | None, ceilings: Ceilings | None) -> LimitJson | None:
    """How close an implementation comes to the machine's measured ceilings."""
    cost = result["cost"].get(pass_name)
    if cost is None:
        return None
    dtype = result["case"]["dtype"]
    if timed is None or not is_duration(timed.entry["timer"]):
        return cast(LimitJson, asdict(roofline(cost, dtype, None, ceilings)))
    return cast(LimitJson, asdict(roofline(cost, dtype, timed.time["median_us"], ceilings, timed.clock_mhz)))


# The trust of comparisons -----------------------------------------------------------------------------


def comparisons(verdict: PassVerdict) -> list[Speedup]:
    """The comparisons of an implementation, with each other one once."""
    speedups = (verdict["speedup"]["baseline"], verdict["speedup"]["fastest_other"])
    return list({speedup["over"]: speedup for speedup in speedups if speedup}.values())


def own_doubts(verdict: PassVerdict, speedup: Speedup) -> list[ReasonJson]:
    """The reasons against a comparison that are not reasons against the time too."""
    of_time = {reason["name"] for reason in verdict["trust"]["reasons"]} if verdict["trust"] else set()
    return [reason for reason in speedup["trust"]["reasons"] if reason["name"] not in of_time]


def comparisons_hold(verdicts: Sequence[PassVerdict]) -> bool:
    """Whether the state of the machine makes times uncertain, and none of the comparisons."""
    moved = any(reason["name"] in _STATES for v in verdicts if v["trust"] for reason in v["trust"]["reasons"])
    trusts = [speedup["trust"]["verdict"] for verdict in verdicts for speedup in comparisons(verdict)]
    return moved and bool(trusts) and all(trust == "trusted" for trust in trusts)


# The regime --------------------------------------------------------------------------------------------


def regime(result: Result, limit: LimitJson | None) -> list[RegimeJson]:
    """What governs an implementation's time, as far as its series show."""
    medians_us = {
        (entry["timer"], entry["cache"]): statistics.median(entry["samples_us"])
        for entry in result["times"]
        if entry["samples_us"] and entry["pass"] == "forward"
    }
    ranked = sorted(TIMERS.values(), key=lambda timer: timer.overhead_rank)
    on_gpu = [medians_us.get((t.name, "cold")) for t in ranked if "cuda" in t.devices and not t.on_host]
    gpu_us = next((us for us in on_gpu if us is not None), None)
    launching = [medians_us.get((t.name, "warm")) for t in ranked if t.on_host and not t.is_duration]
    host_us = next((us for us in launching if us is not None), None)
    regimes: list[RegimeJson] = []
    if gpu_us and host_us and is_launch_bound(host_us, gpu_us):
        evidence = f"the host takes {host_us:.4g} µs to launch what the GPU does in {gpu_us:.4g} µs"
        regimes.append({"name": "launch-bound", "evidence": evidence})
    for device, name in (("cuda", "L2-resident"), ("cpu", "cache-resident")):
        cold_us, warm_us = (medians_us.get((default_timer(device).name, cache)) for cache in ("cold", "warm"))
        if cold_us and warm_us and is_cache_resident(warm_us, cold_us):
            evidence = f"{warm_us:.4g} µs with its data in cache, {cold_us:.4g} µs without"
            regimes.append({"name": name, "evidence": evidence})
    if limit and limit["fraction"] and limit["fraction"] >= NEAR_LIMIT:
        name = "memory-bound" if limit["bound"] == "memory" else "compute-bound"
        evidence = f"{100 * limit['fraction']:.0f} % of what this machine's {limit['bound']} limit allows"
        regimes.append({"name": name, "evidence": evidence})
    return regimes
