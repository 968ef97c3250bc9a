"""Events about an op as a whole: trials of its battery, searches, sanitizer runs, machine code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, TypedDict, cast

from kernellab.activity.documents import OperatorTraffic
from kernellab.base.json import JsonObject
from kernellab.base.shape import fields
from kernellab.codeanalysis.kernel_json import KernelJson
from kernellab.declaration.documents import CaseJson, CostJson
from kernellab.record.event import Event
from kernellab.record.schema import (
    CodeJson,
    ErrorsJson,
    PeerJson,
    Record,
    SanitizerFinding,
    SanitizerOutcome,
    SearchOutcome,
    TrialJson,
    TrialOutcome,
)


@dataclass(frozen=True, kw_only=True)
class OpEvent(Event):
    """An entry of one of the record's lists; its fields are those of the entry. A worker leaves `op` out."""

    op: str = ""
    impl: str

    def entry(self) -> JsonObject:
        """The event as an entry of the record."""
        return {key: value for key, value in self.to_json().items() if key != "event"}


@dataclass(frozen=True, kw_only=True)
class TrialFinished(OpEvent, name="trial"):
    """The outcome of one trial of an implementation."""

    number: int
    trial: TrialJson
    status: str
    reason: str | None
    interpreter: bool = False
    errors: ErrorsJson | None = None
    peer: PeerJson | None = None
    draws: int | None = None
    notes: list[str] | None = None
    traceback: str | None = None

    def fold(self, record: Record) -> None:
        record["trials"].append(cast(TrialOutcome, self.entry()))


@dataclass(frozen=True, kw_only=True)
class SearchFinished(OpEvent, name="search"):
    """How many trials were drawn for an implementation beyond its battery. A failing one is among the trials."""

    drawn: int
    outside: int
    seconds: float
    shrinking: int | None = None
    script: list[str] | None = None
    file: str | None = None

    def fold(self, record: Record) -> None:
        record["searches"].append(cast(SearchOutcome, self.entry()))


@dataclass(frozen=True, kw_only=True)
class SanitizerFinished(OpEvent, name="sanitized"):
    """What one tool of compute-sanitizer reported about an implementation."""

    tool: str
    planned: int
    cases: int
    raised: dict[str, int]
    findings: list[SanitizerFinding]
    errors: int | None
    complaints: list[str]
    exit: int | None
    unfinished: str | None
    seconds: float
    log: str

    def outcome(self) -> SanitizerOutcome:
        return cast(SanitizerOutcome, self.entry())

    def fold(self, record: Record) -> None:
        record["sanitized"].append(self.outcome())


class CodeAccount(TypedDict):
    """What `klab explain` counts in addition: the op's cost, the operators' bytes, lines of source."""

    cost: CostJson | None
    traffic: list[OperatorTraffic] | None
    launcher_lines: int | None
    kernel_lines: int | None


@dataclass(frozen=True, kw_only=True)
class CodeRead(OpEvent, name="code"):
    """What an implementation compiled to at a case, for one architecture: its kernels, or why there are none.

    In JSON the fields of `account` are on the same level as the others.
    """

    kind: str
    case: CaseJson | None
    arch: str
    gpu: str | None
    pass_name: str
    status: str
    reason: str
    seconds: float | None
    kernels: list[KernelJson]
    order: list[int] | None = None
    account: CodeAccount | None = None

    def fold(self, record: Record) -> None:
        record["code"].append(cast(CodeJson, self.entry()))
        record["code"].sort(key=lambda entry: entry.get("order", []))

    def to_json(self) -> JsonObject:
        entry = super().to_json()
        entry.pop("account", None)
        return {**entry, **cast(JsonObject, self.account or {})}

    @classmethod
    def from_json(cls, entry: JsonObject) -> Self:
        if "launcher_lines" not in entry:
            return super().from_json(entry)
        account: JsonObject = {key: entry.get(key) for key in fields(CodeAccount)}
        return super().from_json({**entry, "account": account})
