"""The explanation of a whole run: every implementation and case, those that cannot be explained, and what to choose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernellab.declaration.documents import CaseJson
from kernellab.explaining.advice import Choice, advice, timed_choices, untimed_choices
from kernellab.explaining.explanation import Explanation, explain
from kernellab.explaining.kernel_reader import unfit_kernels
from kernellab.explaining.subject_reader import read_subjects
from kernellab.record import verdict
from kernellab.record.derived import DerivedRecord, DerivedResult
from kernellab.record.schema import CodeJson
from kernellab.record.statuses import FAILED


@dataclass(frozen=True)
class Unexplained:
    """An implementation that failed, or without anything to explain, with the reason."""

    op: str
    impl: str
    arch: str  # or the device
    case: CaseJson | None
    pass_name: str
    status: str
    reason: str | None


@dataclass(frozen=True)
class ChoiceTable:
    """The implementations of one op and case to choose from."""

    op: str
    case: CaseJson
    rows: Sequence[Choice]
    advice: str


@dataclass(frozen=True)
class RunExplanation:
    explanations: Sequence[Explanation]
    unexplained: Sequence[Unexplained]
    choices: Sequence[ChoiceTable]


def explain_run(record: DerivedRecord, gpu_name: str | None = None) -> RunExplanation:
    """`record` with its verdicts. Kernels that were compiled and not timed are explained for `gpu_name`."""
    explanations = [explain(subject) for subject in read_subjects(record, gpu_name)]
    tables = [table for table in _choice_tables(record) if table.rows]
    return RunExplanation(explanations, _unexplained(record, explanations), tables)


def _choice_tables(record: DerivedRecord) -> Iterator[ChoiceTable]:
    if record["results"]:
        for group in verdict.groups(record["results"]):
            yield _choice_table(group[0]["op"], group[0]["case"], timed_choices(group, record["code"]))
        return
    on_gpu = [(entry, case) for entry in record["code"] if (case := entry["case"]) and case["device"] == "cuda"]
    if on_gpu:
        entry, case = on_gpu[0]
        yield _choice_table(entry["op"], case, untimed_choices([entry for entry, _ in on_gpu]))


def _choice_table(op: str, case: CaseJson, rows: Sequence[Choice]) -> ChoiceTable:
    return ChoiceTable(op, case, rows, advice(rows))


def _unexplained(record: DerivedRecord, explanations: Sequence[Explanation]) -> list[Unexplained]:
    subjects = [explanation.subject for explanation in explanations]
    timed = {(s.op, s.impl, str(s.case)) for s in subjects if s.measured}
    failed = [_from_result(r) for r in record["results"] if (r["op"], r["impl"], str(r["case"])) not in timed]
    # An implementation that the CPU skips is explained by its machine code, and one without machine code by its time.
    explained = {(s.op, s.impl) for s in subjects}
    candidates = [*failed, *_unread_code(record), *_unfit_code(record)]
    return [c for c in candidates if c.status in FAILED or (c.op, c.impl) not in explained]


def _from_result(result: DerivedResult) -> Unexplained:
    derived = result["derived"]
    return Unexplained(
        op=result["op"],
        impl=result["impl"],
        arch=result["case"]["device"],
        case=result["case"],
        pass_name="forward",
        status=derived["status"],
        reason=derived["reason"],
    )


def _unread_code(record: DerivedRecord) -> Iterator[Unexplained]:
    for entry in record["code"]:
        if entry["status"] != "ok":
            yield _from_entry(entry, entry["status"], entry["reason"])


def _unfit_code(record: DerivedRecord) -> Iterator[Unexplained]:
    for entry in record["code"]:
        if reasons := unfit_kernels(entry):
            yield _from_entry(entry, "refused", "; ".join(reasons))


def _from_entry(entry: CodeJson, status: str, reason: str) -> Unexplained:
    return Unexplained(entry["op"], entry["impl"], entry["arch"], entry["case"], entry["pass"], status, reason)
