"""A finding as JSON: in the documents of `klab explain`, and in those of `klab profile`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from kernellab.base.json import JsonObject, JsonValue
from kernellab.findings.finding import Confidence, Evidence, Finding, StepTimes


class EvidenceDocument(TypedDict):
    """One figure that a finding rests on."""

    what: Annotated[str, ""]
    value: Annotated[JsonValue, ""]
    unit: Annotated[str, ""]
    source: Annotated[str, "`timing`, `machine code`, `declaration`, …"]


class ExplainFinding(TypedDict):
    """What costs time, and what to do."""

    rule: Annotated[str, "the [rule](explain.md#the-rules) that found it"]
    title: Annotated[str, "a sentence"]
    gain: Annotated[float | None, "estimated speed-up; null for a warning"]
    do: Annotated[str, "what to do"]
    sure: Annotated[Confidence, "`measured`, `computed`, `likely` or `possible`"]
    evidence: Annotated[list[EvidenceDocument], ""]


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
