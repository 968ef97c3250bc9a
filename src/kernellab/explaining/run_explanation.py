"""The explanation of a whole run: every implementation and case, those that cannot be explained, and what to choose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab.explaining.advice import Choice, advice, timed_choices, untimed_choices
from kernellab.explaining.explanation import Explanation, explain
from kernellab.explaining.kernel_reader import unfit_kernels
from kernellab.explaining.subject_reader import read_subjects
from kernellab.record import verdict

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Unexplained:
    """An implementation that failed, or without anything to explain, with the reason."""

    op: str
    impl: str
    arch: str  # or the device
    case: Mapping[str, object]
    pass_name: str
    status: str
    reason: str


@dataclass(frozen=True)
class ChoiceTable:
    """The implementations of one op and case to choose from."""

    op: str
    case: Mapping[str, object]
    rows: Sequence[Choice]
    advice: str


@dataclass(frozen=True)
class RunExplanation:
    explanations: Sequence[Explanation]
    unexplained: Sequence[Unexplained]
    choices: Sequence[ChoiceTable]


def explain_run(record: Record, gpu_name: str | None = None) -> RunExplanation:
    """`record` with its verdicts. Kernels that were compiled and not timed are explained for `gpu_name`."""
    explanations = [explain(subject) for subject in read_subjects(record, gpu_name)]
    tables = [table for table in _choice_tables(record) if table.rows]
    return RunExplanation(explanations, _unexplained(record, explanations), tables)


def _choice_tables(record: Record) -> Iterator[ChoiceTable]:
    if record["results"]:
        for group in verdict.groups(record["results"]):
            yield _choice_table(group[0], timed_choices(group, record["code"]))
        return
    code = [entry for entry in record["code"] if entry["case"] and entry["case"]["device"] == "cuda"]
    if code:
        yield _choice_table(code[0], untimed_choices(code))


def _choice_table(first: Mapping[str, Any], rows: Sequence[Choice]) -> ChoiceTable:
    return ChoiceTable(first["op"], first["case"], rows, advice(rows))


def _unexplained(record: Record, explanations: Sequence[Explanation]) -> list[Unexplained]:
    subjects = [explanation.subject for explanation in explanations]
    timed = [(s.op, s.impl, s.case) for s in subjects if s.measured]
    failed = [_from_result(r) for r in record["results"] if (r["op"], r["impl"], r["case"]) not in timed]
    # An implementation that the CPU skips is explained by its machine code, and one without machine code by its time.
    explained = {(s.op, s.impl) for s in subjects}
    candidates = [*failed, *_unread_code(record), *_unfit_code(record)]
    return [c for c in candidates if c.status in verdict.BAD or (c.op, c.impl) not in explained]


def _from_result(result: Mapping[str, Any]) -> Unexplained:
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


def _unread_code(record: Record) -> Iterator[Unexplained]:
    for entry in record["code"]:
        if entry["status"] != "ok":
            yield _from_entry(entry, entry["status"], entry["reason"])


def _unfit_code(record: Record) -> Iterator[Unexplained]:
    for entry in record["code"]:
        if reasons := unfit_kernels(entry):
            yield _from_entry(entry, "refused", "; ".join(reasons))


def _from_entry(entry: Mapping[str, Any], status: str, reason: str) -> Unexplained:
    return Unexplained(entry["op"], entry["impl"], entry["arch"], entry["case"], entry["pass"], status, reason)
