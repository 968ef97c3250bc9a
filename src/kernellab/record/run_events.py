"""Events about a run as a whole: its settings, where it runs, what is planned, how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from kernellab.base.json import JsonObject
from kernellab.declaration.documents import CaseJson, PeerLibraryJson
from kernellab.machine.description import EnvironmentJson
from kernellab.profiler.protocol import MlpSetupJson, SessionReport, SizeCurve, SkippedImpl
from kernellab.record.event import Event, result_of
from kernellab.record.schema import MachineJson, MergedRun, Record


class PlannedGroup(TypedDict):
    """One op at one case, and its implementations with their kinds."""

    op: str
    case: CaseJson
    impls: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class RunStarted(Event, name="run"):
    """The head of every journal: the command, its settings, and where it runs."""

    schema: int
    command: list[str]
    seed: int
    environment: EnvironmentJson
    settings: JsonObject
    began: str | None = None
    merged_from: list[MergedRun] | None = None

    def fold(self, record: Record) -> None:
        record["command"], record["seed"], record["environment"] = self.command, self.seed, self.environment
        if self.began is not None:
            record["began"] = self.began
        if self.merged_from is not None:
            record["merged_from"] = self.merged_from
        stages = self.settings.get("stages")
        record["stages"] = [str(stage) for stage in stages] if isinstance(stages, list) else []


@dataclass(frozen=True, kw_only=True)
class MachineDescribed(Event, name="machine"):
    """The device the run uses, with its measured ceilings."""

    machine: MachineJson

    def fold(self, record: Record) -> None:
        record["machine"] = self.machine


@dataclass(frozen=True, kw_only=True)
class WorkPlanned(Event, name="plan"):
    """Every op and case of the run with its implementations, a hash of each op's sources, and the peers."""

    groups: list[PlannedGroup]
    sources: dict[str, str]
    peers: dict[str, PeerLibraryJson] = field(default_factory=dict)

    def fold(self, record: Record) -> None:
        record["sources"].update(self.sources)
        record["peers"].update(self.peers)
        for group in self.groups:
            for impl, kind in group["impls"].items():
                result_of(record, group["op"], impl, group["case"])["kind"] = kind


@dataclass(frozen=True, kw_only=True)
class OpVoided(Event, name="void"):
    """An op's source changed since the run began: earlier observations of it no longer count."""

    op: str

    def fold(self, record: Record) -> None:
        record["results"] = [entry for entry in record["results"] if entry["op"] != self.op]
        record["trials"] = [entry for entry in record["trials"] if entry["op"] != self.op]
        record["searches"] = [entry for entry in record["searches"] if entry["op"] != self.op]
        record["sanitized"] = [entry for entry in record["sanitized"] if entry["op"] != self.op]
        record["code"] = [entry for entry in record["code"] if entry["op"] != self.op]


@dataclass(frozen=True, kw_only=True)
class RunCompleted(Event, name="complete"):
    """Everything that was requested is done."""

    def fold(self, record: Record) -> None:
        record["complete"] = True


@dataclass(frozen=True, kw_only=True)
class ProgramProfiled(Event, name="profiled"):
    """`klab profile` recorded a program; the analysis is in profile.json."""

    code: int
    sessions: list[SessionReport]


@dataclass(frozen=True, kw_only=True)
class ScalingMeasured(Event, name="scaled"):
    """`klab profile mlp` timed the MLP over a range of sizes."""

    setup: MlpSetupJson
    curves: list[SizeCurve]


@dataclass(frozen=True, kw_only=True)
class LaunchesCounted(Event, name="counted"):
    """`klab profile --with ncu` counted launches; the counters are in counters.json."""

    op: str | None = None
    skipped: list[SkippedImpl] | None = None
