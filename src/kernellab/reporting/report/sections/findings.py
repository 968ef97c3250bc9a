"""Why each implementation is as fast as it is, what to do about it, and which implementation to choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernellab.explaining.explanation import Explanation
from kernellab.explaining.run_explanation import ChoiceTable, explain_run
from kernellab.findings.finding import Finding
from kernellab.reporting.report.parts.section import Run, Section
from kernellab.reporting.report.parts.table import Table, from_terminal
from kernellab.reporting.sentences import explanation as sentences
from kernellab.reporting.text import numbers

_MOST_RESULTS = 600  # that are explained: more than a reader opens
_MOST_FACTS = 12  # of one implementation


@dataclass(frozen=True)
class _Advice:
    """A finding: its title, what to do, and the numbers behind it."""

    title: str
    action: str
    evidence: Sequence[str]


@dataclass(frozen=True)
class _Explained:
    """An implementation: the answer, the findings, the facts."""

    impl: str
    headline: str
    findings: Sequence[_Advice]
    facts: Sequence[str]


@dataclass(frozen=True)
class _Case:
    """The implementations of one op and case, and which to choose."""

    title: str
    explained: Sequence[_Explained]
    choices: Table | None
    advice: str


def section(run: Run) -> Section | None:
    record = run.record
    timed = any(result["derived"]["time"] for result in record["results"])
    if not timed and not any(entry.get("cost") for entry in record["code"]):
        return None
    explained = record["results"][:_MOST_RESULTS]
    explanation = explain_run({**record, "results": explained})
    groups: dict[str, list[Explanation]] = {}
    for entry in explanation.explanations:
        groups.setdefault(_title(entry), []).append(entry)
    choices = {f"{table.op} {numbers.case_label(table.case)}": table for table in explanation.choices}
    cases = [_case(title, entries, choices.get(title)) for title, entries in groups.items()]
    values = {"cases": cases, "left_out": len(record["results"]) - len(explained)}
    return Section("findings", "Findings", "findings.html", values) if cases else None


def _title(entry: Explanation) -> str:
    subject = entry.subject
    title = f"{subject.op} {numbers.case_label(subject.case)}"
    if subject.measured:
        return title
    return f"{title} · not timed: a model of {subject.device.name if subject.device else 'a GPU'}"


def _case(title: str, entries: Sequence[Explanation], table: ChoiceTable | None) -> _Case:
    ordered = sorted(entries, key=lambda entry: entry.subject.time_us or 0.0)
    choices = (
        from_terminal(sentences.choice_table(table), f"{title}: which implementation to choose") if table else None
    )
    return _Case(title, [_explained(entry) for entry in ordered], choices, table.advice if table else "")


def _explained(entry: Explanation) -> _Explained:
    facts = sentences.fact_lines(entry)[:_MOST_FACTS]
    return _Explained(entry.subject.impl, sentences.headline(entry), [_advice(f) for f in entry.findings], facts)


def _advice(finding: Finding) -> _Advice:
    evidence = [sentences.evidence_line(entry) for entry in finding.evidence]
    return _Advice(sentences.title_with_gain(finding), sentences.action(finding), evidence)
