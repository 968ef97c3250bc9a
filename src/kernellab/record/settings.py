"""The settings of a run: plain data that can be stored, sent to a worker and read when a run is resumed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Never, TypedDict, cast

from kernellab.activity.documents import TunedJson
from kernellab.base.errors import UserError, nearest
from kernellab.base.json import JsonObject
from kernellab.declaration.documents import RequestJson
from kernellab.energy.rounds import BLOCKS, QUICK_BLOCKS
from kernellab.peers import peer_names
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

_LEAST_S = 5.0  # at least, shared by all cases: with few cases each is timed for longer than its answer needs
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
    budget_s: float = 0.0  # for the search, all implementations together
    seconds: float | None = None  # timing budget per implementation; None: by device
    rounds: int = 10  # at least
    precision: float = PRECISION
    passes: list[str] = field(default_factory=lambda: ["forward"])
    timers: list[str] = field(default_factory=lambda: ["auto"])
    caches: list[str] = field(default_factory=lambda: ["cold"])
    panel: bool = False
    pins: list[TunedJson] = field(default_factory=list)  # choices of autotuners to reuse
    refresh_ceilings: bool = False
    cells: list[int] | None = None  # [i, n]: every n-th group of the plan, beginning with the i-th
    sanitizers: list[str] = field(default_factory=list)  # tools of compute-sanitizer
    archs: list[str] = field(default_factory=list)  # to read machine code for
    gpu: str = ""  # the GPU to assume among those with these architectures; empty: any
    peers: list[str] = field(default_factory=list)  # libraries whose kernels run beside the chosen implementations
    energy: bool = False  # also measure the energy of a call
    only_times: bool = False  # do not measure the machine's ceilings, nor anything that needs a profiler

    def to_json(self) -> JsonObject:
        return asdict(self)

    @classmethod
    def from_json(cls, data: JsonObject) -> Settings:
        """Settings that a run was started with. Fields of other versions are ignored."""
        names = {f.name for f in fields(cls)}
        return cls(**cast("dict[str, Never]", {k: v for k, v in data.items() if k in names}))

    @property
    def quick_check(self) -> bool:
        """Whether the run only checks, and quickly: smaller cases, and nothing that takes long."""
        return bool(self.request.get("quick")) and "battery" in self.stages

    def energy_blocks(self) -> int:
        """In how many blocks the energy of each implementation is measured; 0 where it is not."""
        return (QUICK_BLOCKS if self.request.get("quick") else BLOCKS) if self.energy else 0

    def loaded_peers(self) -> list[str]:
        """The peers to load: also those that `--impl` names."""
        return [name for name in peer_names() if name in (*self.peers, *self.impls)]

    def impl_patterns(self) -> list[str]:
        """The implementations to run; none named: all."""
        return [*self.impls, *self.peers] if self.impls else []

    def checked_passes(self) -> list[str]:
        """The passes to check. Gradients are checked if a pass that computes them is timed."""
        return list(dict.fromkeys(part for pass_name in self.passes for part in needed_checks(pass_name)))

    def series(self, device: str) -> list[SeriesJson]:
        """Every series to time on a device, the main series first."""
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
        return [entry for place, entry in enumerate(entries) if entry not in entries[:place]]

    def timing(self, device: str, series: SeriesJson, groups: int) -> TimingPlan:
        """How long a series is timed in a run with this number of groups."""
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
