"""Events about an implementation at a case: checked, built, timed, profiled."""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.activity.documents import CallActivity, KernelLaunch, OperatorTraffic
from kernellab.declaration.documents import CostJson
from kernellab.energy.documents import EnergyJson
from kernellab.record.event import CaseEvent, ImplEvent
from kernellab.record.schema import (
    BuiltJson,
    CheckOutcome,
    CrossCheckJson,
    Guard,
    MemoryJson,
    Record,
    Result,
    SeriesJson,
    Telemetry,
    TimeSeries,
    TrialJson,
)

CHECK_PHASES = ("check", "gradients")  # phases in which nothing is timed


@dataclass(frozen=True, kw_only=True)
class PhaseBegun(CaseEvent, name="begin"):
    """An implementation starts running; if the worker dies before the end of this phase, it is the culprit.

    `impl` is None while the oracle or the op's own functions run.
    """

    impl: str | None
    phase: str
    number: int | None = None
    trial: TrialJson | None = None


@dataclass(frozen=True, kw_only=True)
class PhaseEnded(CaseEvent, name="end"):
    """The phase that began last has ended."""

    impl: str | None
    phase: str


@dataclass(frozen=True, kw_only=True)
class ImplChecked(ImplEvent, name="check"):
    """An implementation was checked in one pass."""

    check: CheckOutcome
    pass_name: str = "forward"

    def fold(self, record: Record) -> None:
        result = self.result(record)
        if self.pass_name == "forward":
            result["check"] = self.check
        else:
            result["gradients"] = self.check


@dataclass(frozen=True, kw_only=True)
class CostCounted(CaseEvent, name="cost"):
    """The fewest bytes and the operations of a pass; None if the op's cost= failed."""

    cost: CostJson | None
    pass_name: str = "forward"

    def fold(self, record: Record) -> None:
        for result in self.results(record):
            result["cost"][self.pass_name] = self.cost


@dataclass(frozen=True, kw_only=True)
class SeriesEvent(CaseEvent):
    """Something about a series of timings: a pass, a timer, a state of the cache. Schema 1 had one series."""

    pass_name: str | None = None
    timer: str | None = None
    cache: str | None = None

    @property
    def series(self) -> SeriesJson:
        return {"pass": self.pass_name or "forward", "timer": self.timer, "cache": self.cache}


@dataclass(frozen=True, kw_only=True)
class RoundTimed(SeriesEvent, name="round"):
    """One round of a series: microseconds per call by implementation, one sample for each window. `before` says which
    implementation ran before each one, `clocks_mhz` has the GPU's clock while each one ran."""

    round: int
    samples_us: dict[str, list[float] | float]
    calls: dict[str, int] | None = None
    before: dict[str, str] | None = None
    clocks_mhz: dict[str, float | None] | None = None

    def fold(self, record: Record) -> None:
        for result in self.results(record):
            impl = result["impl"]
            samples = self.samples_us.get(impl)
            if samples is not None:
                times = series_of(result, self.series)
                new = samples if isinstance(samples, list) else [samples]  # schema 1 had one sample per round
                times["samples_us"] += new
                times["rounds"] += [self.round] * len(new)
                times["calls"] = (self.calls or {}).get(impl, 1)
                if self.before is not None:
                    times.setdefault("before", []).append(self.before.get(impl, ""))
                if self.clocks_mhz is not None:
                    times.setdefault("clocks_mhz", []).append(self.clocks_mhz.get(impl))


@dataclass(frozen=True, kw_only=True)
class SeriesTimed(SeriesEvent, name="timed"):
    """A series is complete, and how it was timed."""

    impls: list[str]
    looks: list[int] | None = None
    decided: bool | None = None
    precision: float | None = None
    warmups: int | None = None
    warmup_s: float | None = None
    steady: bool | None = None
    floor_us: dict[str, float | None] | None = None
    telemetry: Telemetry | None = None

    def fold(self, record: Record) -> None:
        for result in self.results(record):
            if result["impl"] not in self.impls:
                continue
            if self.timer is None:  # schema 1: there was one series
                for times in result["times"]:
                    times["status"] = "ok"
                continue
            times = series_of(result, self.series)
            times["status"] = "ok"
            times["floor_us"] = (self.floor_us or {}).get(result["impl"])
            if self.looks is not None:
                times["looks"] = self.looks
            if self.decided is not None:
                times["decided"] = self.decided
            if self.precision is not None:
                times["precision"] = self.precision
            if self.warmups is not None:
                times["warmups"] = self.warmups
            if self.warmup_s is not None:
                times["warmup_s"] = self.warmup_s
            times["steady"], times["telemetry"] = self.steady, self.telemetry


@dataclass(frozen=True, kw_only=True)
class EnergyMeasured(SeriesEvent, name="energy"):
    """The energy of calls, by implementation, or why it was not measured."""

    energy: dict[str, EnergyJson]

    def fold(self, record: Record) -> None:
        for result in self.results(record):
            if result["impl"] in self.energy:
                series_of(result, self.series)["energy"] = self.energy[result["impl"]]


@dataclass(frozen=True, kw_only=True)
class TimeCrossChecked(ImplEvent, name="cross-check"):
    """The parent compared a series of an implementation with its own clock."""

    pass_name: str
    timer: str | None = None
    cache: str | None = None
    cross_check: CrossCheckJson

    def fold(self, record: Record) -> None:
        series: SeriesJson = {"pass": self.pass_name, "timer": self.timer, "cache": self.cache}
        series_of(self.result(record), series)["cross_check"] = self.cross_check


@dataclass(frozen=True, kw_only=True)
class SamplesDiscarded(CaseEvent, name="discard"):
    """Samples of unfinished series are void: a crash while timing affects all implementations that were interleaved."""

    def fold(self, record: Record) -> None:
        for result in self.results(record):
            result["times"] = [times for times in result["times"] if times["status"] != "partial"]


@dataclass(frozen=True, kw_only=True)
class ImplFailed(ImplEvent, name="fault"):
    """An implementation failed in the middle of a phase."""

    phase: str
    status: str
    reason: str | None
    pass_name: str | None = None
    timer: str | None = None
    cache: str | None = None
    needed_bytes: int | None = None
    traceback: str | None = None

    def fold(self, record: Record) -> None:
        result = self.result(record)
        if self.phase == "check":
            result["check"] = self._failed_check(result["check"])
        elif self.phase == "gradients":
            result["gradients"] = self._failed_check(result["gradients"])
        elif self.phase != "profile":
            series: SeriesJson = {"pass": self.pass_name or "forward", "timer": self.timer, "cache": self.cache}
            times = series_of(result, series)
            times["status"], times["reason"], times["samples_us"], times["rounds"] = self.status, self.reason, [], []
            times.pop("before", None)
            times.pop("clocks_mhz", None)
            times.pop("energy", None)
            if self.needed_bytes is not None:
                times["needed_bytes"] = self.needed_bytes

    def _failed_check(self, before: CheckOutcome | None) -> CheckOutcome:
        outcome: CheckOutcome = {**before} if before else {"status": self.status, "reason": self.reason}
        outcome["status"], outcome["reason"] = self.status, self.reason
        if self.needed_bytes is not None:
            outcome["needed_bytes"] = self.needed_bytes
        return outcome


@dataclass(frozen=True, kw_only=True)
class ImplBuilt(ImplEvent, name="built"):
    """What was compiled or tuned while an implementation was checked; each pass may add to it."""

    built: BuiltJson

    def fold(self, record: Record) -> None:
        result = self.result(record)
        before = result["built"]
        result["built"] = _sum_of_builds(before, self.built) if before else self.built


@dataclass(frozen=True, kw_only=True)
class MemoryMeasured(ImplEvent, name="memory"):
    """Peak memory of one call."""

    pass_name: str
    timer: str | None = None
    cache: str | None = None
    memory: MemoryJson

    def fold(self, record: Record) -> None:
        self.result(record)["memory"][self.pass_name] = self.memory


@dataclass(frozen=True, kw_only=True)
class KernelsSeen(ImplEvent, name="kernels"):
    """The kernels that one call launches."""

    kernels: list[KernelLaunch]

    def fold(self, record: Record) -> None:
        self.result(record)["kernels"] = self.kernels


@dataclass(frozen=True, kw_only=True)
class CallActivitySeen(ImplEvent, name="inside"):
    """What else one call does: allocations, copies, synchronisations, random numbers."""

    inside: CallActivity

    def fold(self, record: Record) -> None:
        self.result(record)["inside"] = self.inside


@dataclass(frozen=True, kw_only=True)
class TrafficCounted(ImplEvent, name="traffic"):
    """The bytes that each operator of one call has to move."""

    traffic: list[OperatorTraffic]

    def fold(self, record: Record) -> None:
        self.result(record)["traffic"] = self.traffic


@dataclass(frozen=True, kw_only=True)
class GuardNoticed(ImplEvent, name="guard"):
    """A guard noticed something. The record keeps each notice once."""

    guard: Guard

    def fold(self, record: Record) -> None:
        guards = self.result(record)["guards"]
        if self.guard not in guards:
            guards.append(self.guard)


@dataclass(frozen=True, kw_only=True)
class TimeSpent(CaseEvent, name="spent"):
    """Where the time of a case went, in seconds by phase."""

    seconds: dict[str, float]

    def fold(self, record: Record) -> None:
        assert self.case is not None
        record["spent"].append({"op": self.op, "case": self.case, "seconds": self.seconds})


def series_of(result: Result, series: SeriesJson) -> TimeSeries:
    """A result's entry for a series; an empty one is added if there is none."""
    for times in result["times"]:
        if is_series(times, series):
            return times
    result["times"].append(
        {
            "pass": series["pass"],
            "timer": series["timer"],
            "cache": series["cache"],
            "status": "partial",
            "reason": None,
            "samples_us": [],
            "rounds": [],
        }
    )
    return result["times"][-1]


def is_series(times: TimeSeries, series: SeriesJson) -> bool:
    return all(times[key] == series[key] for key in ("pass", "timer", "cache"))


def _sum_of_builds(before: BuiltJson, more: BuiltJson) -> BuiltJson:
    total: BuiltJson = {"seconds": before["seconds"] + more["seconds"], "tuned": [*before["tuned"], *more["tuned"]]}
    earlier, later = before.get("compile"), more.get("compile")
    if earlier or later:
        parts = [part for part in (earlier, later) if part]
        total["compile"] = {
            "seconds": sum(part.get("seconds", 0.0) for part in parts),
            "graphs": sum(part.get("graphs", 0) for part in parts),
            "recompiles": sum(part.get("recompiles", 0) for part in parts),
            "graph_breaks": sum(part.get("graph_breaks", 0) for part in parts),
        }
    return total
