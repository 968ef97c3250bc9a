"""compute-sanitizer: a table of what each tool found, and where each finding is."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kernellab.record.schema import SanitizerFinding, SanitizerOutcome
from kernellab.reporting.text import numbers
from kernellab.reporting.text.table import Column, Row, Table


def table(entries: list[SanitizerOutcome]) -> Table:
    rows = []
    for entry in entries:
        cases = str(entry["cases"]) + (f" of {entry['planned']}" if entry["cases"] < entry["planned"] else "")
        style = {"ok": "", "wrong": "bold red"}.get(entry["status"], "yellow")
        findings = "cannot tell" if entry["status"] == "unknown" else str(len(_own_errors(entry)))
        seconds = f"{entry['seconds']:.0f} s"
        rows.append(Row([entry["impl"], entry["tool"], cases, Text(findings, style=style), seconds]))
    columns = [Column("impl", "left", cut_to=12), Column("tool", "left")]
    return Table([*columns, Column("cases"), Column("findings"), Column("time", drop=1)], rows)


def lines(entry: SanitizerOutcome, *, verbose: bool) -> list[Text]:
    """What the table does not say of a tool's outcome: each finding, and why calls did not return."""
    return [*_errors(entry), *_other_findings(entry, verbose), *(_calls_not_returned(entry) if verbose else [])]


def _own_errors(entry: SanitizerOutcome) -> list[SanitizerFinding]:
    return [f for f in entry["findings"] if f["own"] and f["severity"] == "error"]


def _errors(entry: SanitizerOutcome) -> list[Text]:
    """What makes the implementation wrong, or prevents a verdict."""
    head, tool = f" {entry['impl']}  ", entry["tool"]
    lines = [Text.assemble((f"{head}wrong: ", "bold red"), f"{tool}: {f['said']}") for f in _own_errors(entry)]
    if entry["unfinished"] or entry["status"] == "unknown":
        lines.append(Text(f"{head}{tool}: {entry['unfinished'] or entry['reason']} ({entry['log']})", style="yellow"))
    return lines


def _other_findings(entry: SanitizerOutcome, verbose: bool) -> list[Text]:
    """Warnings, what the tool says about itself, and findings in kernels that are not the implementation's."""
    head = f" {entry['impl']}  {entry['tool']}: "
    warnings = [f["said"] for f in entry["findings"] if f["own"] and f["severity"] != "error"]
    lines = [Text(f"{head}note: {text}", style="yellow") for text in [*warnings, *entry["complaints"]]]
    foreign = [f for f in entry["findings"] if not f["own"]]
    if foreign and not verbose:
        count = numbers.count(len(foreign), "finding")
        text = f"{count} in kernels of PyTorch or a library, not of this implementation"
        return [*lines, Text(f"{head}{text} (--verbose)", style="dim")]
    return lines + [Text(f"{head}not in this implementation's kernels: {f['said']}", style="dim") for f in foreign]


def _calls_not_returned(entry: SanitizerOutcome) -> list[Text]:
    """Why calls did not return: most often the trial is outside the implementation's domain."""
    head = f" {entry['impl']}  {entry['tool']}: not called, "
    return [
        Text(f"{head}{numbers.count(count, 'case')}: {reason}", style="dim")
        for reason, count in entry["raised"].items()
    ]


def closing(sanitized: Sequence[SanitizerOutcome]) -> list[str]:
    """One sentence: how many implementations ran under which tools, and what was found."""
    if not sanitized:
        return []
    impls = len({(entry["op"], entry["impl"]) for entry in sanitized})
    tools = ", ".join(dict.fromkeys(entry["tool"] for entry in sanitized))
    head = f"{numbers.count(impls, 'implementation')} under {tools}"
    wrong, unknown = (_names_with_status(sanitized, status) for status in ("wrong", "unknown"))
    if not wrong and not unknown:
        return [f"{head}: nothing found."]
    parts = [f"errors in {', '.join(wrong)}"] if wrong else []
    parts += [f"cannot tell for {', '.join(unknown)}"] if unknown else []
    return [f"{head}: {'; '.join(parts)}."]


def _names_with_status(entries: Sequence[SanitizerOutcome], status: str) -> list[str]:
    return list(dict.fromkeys(f"{entry['op']} {entry['impl']}" for entry in entries if entry["status"] == status))
