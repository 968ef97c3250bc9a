"""Explanations in the terminal: the answer for each implementation first, then its evidence; then what to choose."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from kernellab.explaining.advice import AUTOMATION
from kernellab.explaining.explanation import Explanation
from kernellab.explaining.run_explanation import ChoiceTable, RunExplanation
from kernellab.findings.finding import Finding
from kernellab.record.derived import DerivedRecord
from kernellab.reporting.sentences import explanation as sentences
from kernellab.reporting.terminal import inspection
from kernellab.reporting.text import numbers as words
from kernellab.reporting.text.table import Column, Row, Table, print_table


def show(run: RunExplanation, record: DerivedRecord, out: Console, *, verbose: bool = False) -> None:
    groups: dict[tuple[str, str, bool], list[Explanation]] = {}
    for explanation in run.explanations:
        subject = explanation.subject
        groups.setdefault((subject.op, words.case_label(subject.case), subject.measured), []).append(explanation)
    for (op, case, _), group in groups.items():
        _show_heading(op, case, group[0], record, out)
        for explanation in sorted(group, key=lambda explanation: explanation.subject.time_us or 0.0):
            _show_explanation(explanation, out, verbose=verbose)
        out.print()
    inspection.show_failures([inspection.FailedImpl(u.impl, u.arch, u.status, u.reason) for u in run.unexplained], out)
    if run.unexplained:
        out.print()
    for table in run.choices:
        _show_choices(table, out)
    if verbose:
        _show_automation(out)


def _show_heading(op: str, case: str, first: Explanation, record: DerivedRecord, out: Console) -> None:
    subject = first.subject
    bandwidth = f"{words.digits(subject.gbps)} GB/s" if subject.gbps else ""
    if subject.measured:
        where = record["machine"].get("device", subject.case["device"])
        basis = f"{where}; copies {bandwidth}" if bandwidth else where
    else:
        name = subject.device.name if subject.device else ""
        basis = f"not timed: a model of {name} ({bandwidth})"
    out.print(Text.assemble((op, "bold"), f" · {case} · {basis}"))


def _show_explanation(explanation: Explanation, out: Console, *, verbose: bool) -> None:
    subject = explanation.subject
    heading = Text.assemble((f" {subject.op} {subject.impl}: ", "bold"), sentences.headline(explanation))
    out.print(heading, soft_wrap=not out.is_terminal)
    for index, finding in enumerate(explanation.findings):
        _show_finding(finding, out, verbose=verbose, with_title=index > 0)
    for line in sentences.fact_lines(explanation):
        out.print(Text(f"   {line}", style="dim"), soft_wrap=not out.is_terminal)


def _show_finding(finding: Finding, out: Console, *, verbose: bool, with_title: bool) -> None:
    wrap = not out.is_terminal
    if with_title:
        out.print(Text(f"   also: {sentences.title_with_gain(finding)}"), soft_wrap=wrap)
    out.print(Text(f"   {sentences.action(finding)}"), soft_wrap=wrap)
    for evidence in finding.evidence if verbose else ():
        out.print(Text(f"     {sentences.evidence_line(evidence)}", style="dim"), soft_wrap=wrap)


def _show_choices(choices: ChoiceTable, out: Console) -> None:
    out.print(Text(f"Which implementation · {choices.op} · {words.case_label(choices.case)}", style="bold"))
    print_table(sentences.choice_table(choices), out)
    out.print(Text(f" {choices.advice}"), soft_wrap=not out.is_terminal)
    out.print()


def _show_automation(out: Console) -> None:
    columns = [Column(title, "left") for title in ("task", "CUDA C++", "Triton")]
    print_table(Table(columns, [Row(row) for row in AUTOMATION]), out)
