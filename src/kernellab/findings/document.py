"""A finding as JSON: in the documents of `klab explain`, and in those of `klab profile`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from kernellab.base.json import JsonObject, JsonValue
from kernellab.findings.finding import Confidence, Evidence, Finding, StepTimes


class EvidenceDocument(TypedDict):
    what: Annotated[str, "what was measured or counted"]
    value: Annotated[JsonValue, ""]
    unit: Annotated[str, "empty for a number without one"]
    source: Annotated[str, "where the number is from: `timing`, `profiler`, `machine code`, `model`, …"]


class ExplainFinding(TypedDict):
    """`gain` is a speed-up factor or null."""

    rule: Annotated[str, "the rule that found it"]
    title: Annotated[str, "what costs time"]
    gain: Annotated[float | None, "how many times as fast without it"]
    do: Annotated[str, "what to do about it"]
    sure: Annotated[Confidence, "`measured`, `computed`, `likely` or `possible`"]
    evidence: Annotated[list[EvidenceDocument], "the numbers behind it"]


class ProfileFinding(TypedDict):
    """The place in the source, and what a step gains."""

    kind: str
    title: str
    do: str
    file: str | None
    line: int | None
    function: str | None
    call: str
    code: str
    exact: bool
    gain_us: float
    gain_share: float
    step_us: float
    step_without_us: float
    evidence: JsonObject


def explain_document(finding: Finding) -> ExplainFinding:
    return {
        "rule": finding.name,
        "title": finding.title,
        "gain": finding.gain,
        "do": finding.do,
        "sure": finding.confidence,
        "evidence": [_evidence_document(evidence) for evidence in finding.evidence],
    }


def profile_document(finding: Finding) -> ProfileFinding:
    place, step = finding.place, finding.step or StepTimes(0.0, 0.0)
    return {
        "kind": finding.name,
        "title": finding.title,
        "do": finding.do,
        "file": place.file,
        "line": place.line,
        "function": place.function,
        "call": place.call,
        "code": place.code,
        "exact": place.exact,
        "gain_us": round(step.gain_us, 3),
        "gain_share": round(step.gain_share, 4),
        "step_us": round(step.step_us, 3),
        "step_without_us": round(step.step_us - step.gain_us, 3),
        "evidence": {evidence.what: _rounded(evidence.value) for evidence in finding.evidence},
    }


def _evidence_document(evidence: Evidence) -> EvidenceDocument:
    return {"what": evidence.what, "value": evidence.value, "unit": evidence.unit, "source": evidence.source}


def _rounded(value: JsonValue) -> JsonValue:
    return round(value, 3) if isinstance(value, float) else value
