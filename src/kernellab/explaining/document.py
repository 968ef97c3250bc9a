"""Explanations as JSON: the document of `klab explain --json`, and the findings in that of `klab run --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TypedDict

from kernellab.base.json import JsonObject
from kernellab.declaration.documents import CaseJson
from kernellab.explaining.explanation import Explanation, Prediction
from kernellab.explaining.rulebook import find
from kernellab.explaining.run_explanation import ChoiceTable, RunExplanation, Unexplained
from kernellab.explaining.subject_reader import read_timed_subject
from kernellab.findings.document import ExplainFinding, explain_document
from kernellab.gpumodel.fusion import Fusion
from kernellab.record.derived import DerivedRecord
from kernellab.record.schema import MachineJson
from kernellab.record.statuses import RIGHT
from kernellab.timing.timers import is_duration


class ExplanationDocument(TypedDict):
    """One implementation at one case."""

    op: str
    impl: str
    kind: str
    case: CaseJson
    measured: bool
    gpu: str | None
    copy_gbps: float | None
    time_us: float | None
    roofline: JsonObject | None
    fusion: JsonObject | None
    became: list[JsonObject]
    kernels: list[JsonObject]
    predicted: JsonObject | None
    findings: list[ExplainFinding]


class ChoicesDocument(TypedDict):
    """The implementations of one op and case to choose from."""

    op: str
    case: CaseJson
    impls: list[JsonObject]
    advice: str


class RunDocument(TypedDict):
    """A whole run. `others` are implementations that could not be explained, with their reasons."""

    schema: int
    command: list[str]
    machine: MachineJson
    results: list[ExplanationDocument]
    others: list[JsonObject]
    choices: list[ChoicesDocument]


def run_document(record: DerivedRecord, run: RunExplanation) -> RunDocument:
    return {
        "schema": record["schema"],
        "command": record["command"],
        "machine": record["machine"],
        "results": [explanation_document(explanation) for explanation in run.explanations],
        "others": [unexplained_document(unexplained) for unexplained in run.unexplained],
        "choices": [_choices_document(table) for table in run.choices],
    }


def add_findings(record: DerivedRecord) -> None:
    """Add `derived.findings` to each result of a record with its verdicts; empty where nothing was timed."""
    for result in record["results"]:
        derived = result["derived"]
        forward = derived["passes"].get("forward")  # rules know the forward pass alone
        time = forward["time"] if forward else None
        timed = derived["at_case"]["status"] in RIGHT and time is not None and is_duration(time["timer"])
        findings = find(read_timed_subject(record, result)) if timed else []
        derived["findings"] = [explain_document(finding) for finding in findings]


def explanation_document(explanation: Explanation) -> ExplanationDocument:
    subject = explanation.subject
    return {
        "op": subject.op,
        "impl": subject.impl,
        "kind": subject.kind,
        "case": subject.case,
        "measured": subject.measured,
        "gpu": subject.device.name if subject.device else None,
        "copy_gbps": subject.gbps,
        "time_us": subject.time_us,
        "roofline": asdict(subject.limit) if subject.limit else None,
        "fusion": _fusion_document(subject.chain, subject.time_us) if subject.chain else None,
        "became": [
            {"family": family.name, "words": family.description, "kernels": count}
            for family, count in explanation.families
        ],
        "kernels": [asdict(kernel) for kernel in subject.kernels],
        "predicted": _prediction_document(explanation.prediction) if explanation.prediction else None,
        "findings": [explain_document(finding) for finding in explanation.findings],
    }


def unexplained_document(unexplained: Unexplained) -> JsonObject:
    fields = asdict(unexplained)
    return {("pass" if name == "pass_name" else name): value for name, value in fields.items()}


def _prediction_document(prediction: Prediction) -> JsonObject:
    return {
        "time_us": prediction.time_us,
        "kernel": prediction.kernel,
        "dearest": prediction.estimate.bottleneck,
        "items_us": asdict(prediction.estimate),
        "loops_counted_once": prediction.loops_counted_once,
    }


def _fusion_document(chain: Fusion, time_us: float | None) -> JsonObject:
    """`timed_gain`: the measured time of the chain over the predicted time of the fused kernel."""
    timed_gain = time_us / chain.fused_us if time_us else None
    return {**asdict(chain), "gain": chain.gain, "timed_gain": timed_gain, "kernels": chain.kernels}


def _choices_document(table: ChoiceTable) -> ChoicesDocument:
    return {
        "op": table.op,
        "case": table.case,
        "impls": [asdict(row) for row in table.rows],
        "advice": table.advice,
    }
