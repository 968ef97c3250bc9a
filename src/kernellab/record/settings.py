"""What a run was asked to do: plain data, so that it can be stored, sent and resumed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Never, TypedDict, cast

from kernellab.activity.documents import TunedJson
from kernellab.base.errors import UserError, nearest
from kernellab.base.json import JsonObject
from kernellab.declaration.documents import RequestJson
from kernellab.record.schema import SeriesJson
from kernellab.stats.intervals import PRECISION
from kernellab.timing.timers import AUTO, TIMERS, timers_on


class TimingPlan(TypedDict):
    """How long a series is timed."""

    seconds: float  # budget per implementation
    least: int  # rounds
    least_seconds: float
    precision: float


NO_CASES: RequestJson = {"shapes": [], "dtypes": [], "dims": {}, "options": {}, "quick": False}

_LEAST_S = 5.0  # shared by the cases: a run of few cases is timed longer, a sweep stops at the answer
_PANEL_S = 0.25  # for each further row of the panel, per implementation


def needed_checks(pass_name: str) -> tuple[str, ...]:
    """The passes that must be right before a pass is timed."""
    return ("forward",) if pass_name == "forward" else ("forward", "backward")


@dataclass(frozen=True)
class Settings:
    targets: list[str]
    stages: list[str]  # of "check", "battery", "sanitize", "time", "inspect", "explain"
    request: RequestJson
    impls: list[str] = field(default_factory=list)
    device: str = "auto"
    seed: int = 0
    timeout_s: float = 60.0
    budget_s: float = 0.0  # of searching beyond the battery, all implementations together
    seconds: float | None = None  # timing budget per implementation; None: by device
    rounds: int = 10  # at least
    precision: float = PRECISION
    passes: list[str] = field(default_factory=lambda: ["forward"])
    timers: list[str] = field(default_factory=lambda: ["auto"])
    caches: list[str] = field(default_factory=lambda: ["cold"])
    panel: bool = False
    pins: list[TunedJson] = field(default_factory=list)  # autotuners' choices to keep to
    refresh_ceilings: bool = False
    cells: list[int] | None = None  # [i, n]: every n-th group of the plan, beginning with the i-th
    sanitizers: list[str] = field(default_factory=list)  # tools of compute-sanitizer
    archs: list[str] = field(default_factory=list)  # to read the machine code for
    gpu: str = ""  # the product of these that is meant; empty: any
    only_times: bool = False  # neither the machine's ceilings nor what a profiler knows

    def to_json(self) -> JsonObject:
        return asdict(self)

    @classmethod
    def from_json(cls, data: JsonObject) -> Settings:
        """Settings that a run was started with. Fields of other versions are ignored."""
        known = {f.name for f in fields(cls)}
        return cls(**cast("dict[str, Never]", {k: v for k, v in data.items() if k in known}))

    @property
    def quick_check(self) -> bool:
        """Checking alone, and quickly: on smaller cases, without what takes long."""
        return bool(self.request.get("quick")) and "battery" in self.stages

    def checked_passes(self) -> list[str]:
        """Gradients are checked where a pass that makes them is timed."""
        return list(dict.fromkeys(part for pass_name in self.passes for part in needed_checks(pass_name)))

    def series(self, device: str) -> list[SeriesJson]:
        """Everything that is to be timed on a device, the main series first."""
        kind = device.split(":")[0]
        available = {timer.name: timer for timer in timers_on(kind)}
        for name in self.timers:
            if name not in (AUTO, *available):
                why = f"there is no such timer on {kind}" if name in TIMERS else nearest(name, [AUTO, *available])
                raise UserError(f"--timer {name}: {why}")
        default = next(iter(available))
        names, caches = [default if name == AUTO else name for name in self.timers], self.caches
        if self.panel:
            names, caches = [*names, *available], [*caches, "cold", "warm"]
        entries: list[SeriesJson] = [
            {"pass": pass_name, "timer": timer.name, "cache": cache if cache in timer.caches else timer.caches[0]}
            for pass_name in self.passes
            for timer in (available[name] for name in names)
            for cache in caches
            if not (self.panel and cache in timer.caches and cache not in timer.panel_caches)
        ]
        return [one for place, one in enumerate(entries) if one not in entries[:place]]

    def timing(self, device: str, series: SeriesJson, groups: int) -> TimingPlan:
        """How long a series of one of so many groups is timed."""
        seconds = self.seconds if self.seconds is not None else (1.0 if device.startswith("cuda") else 3.0)
        if self.panel and series != self.series(device)[0]:
            seconds = min(seconds, _PANEL_S)
        least_seconds = _LEAST_S / groups / len(self.series(device))
        return {
            "seconds": seconds,
            "least": self.rounds,
            "least_seconds": least_seconds,
            "precision": self.precision,
        }
