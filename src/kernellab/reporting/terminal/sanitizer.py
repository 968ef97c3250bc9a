"""What compute-sanitizer found in each way, in a table, and below it where: the kernel, its line, the trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernellab.reporting.text import numbers as words


def show(record: Mapping[str, Any], out: Console, *, verbose: bool) -> None:
    for op in dict.fromkeys(one["op"] for one in record["sanitized"]):
        found = [one for one in record["sanitized"] if one["op"] == op]
        out.print(Text(f"{op} · under compute-sanitizer", style="bold"))
        out.print(_table(found))
        for one in found:
            for line in [*_findings(one), *_apart(one, verbose), *_uncalled(one, verbose)]:
                out.print(line, soft_wrap=not out.is_terminal)
        out.print()


def _table(found: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=True, padding=(0, 1), header_style="dim")
    for title in ("way", "tool", "cases", "findings", "time"):
        table.add_column(title, justify="left" if title in ("way", "tool") else "right", no_wrap=True)
    for one in found:
        cases = str(one["cases"]) + (f" of {one['planned']}" if one["cases"] < one["planned"] else "")
        style = {"ok": "", "wrong": "bold red"}.get(one["status"], "yellow")
        told = "cannot tell" if one["status"] == "unknown" else str(len(_errors(one)))
        seconds = f"{one['seconds']:.0f} s"
        table.add_row(*map(Text, (one["impl"], one["tool"], cases)), Text(told, style=style), Text(seconds))
    return table


def _errors(one: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [f for f in one["findings"] if f["own"] and f["severity"] == "error"]


def _findings(one: Mapping[str, Any]) -> list[Text]:
    head = f" {one['impl']}  "
    lines = [Text.assemble((f"{head}wrong: ", "bold red"), f"{one['tool']}: {error['said']}") for error in _errors(one)]
    if one["unfinished"] or one["status"] == "unknown":
        lines.append(Text(f"{head}{one['tool']}: {one['unfinished'] or one['reason']} ({one['log']})", style="yellow"))
    return lines


def _apart(one: Mapping[str, Any], verbose: bool) -> list[Text]:
    """What is no fault of the way, or none for sure."""
    head = f" {one['impl']}  {one['tool']}: "
    warned = [f for f in one["findings"] if f["own"] and f["severity"] != "error"]
    lines = [Text(f"{head}note: {said}", style="yellow") for said in [*(f["said"] for f in warned), *one["complaints"]]]
    others = [f for f in one["findings"] if not f["own"]]
    if others and not verbose:
        said = f"{words.count(len(others), 'finding')} not in this way's kernels, but in PyTorch's or a library's"
        return [*lines, Text(f"{head}{said} (--verbose)", style="dim")]
    return lines + [Text(f"{head}not in this way's kernels: {f['said']}", style="dim") for f in others]


def _uncalled(one: Mapping[str, Any], verbose: bool) -> list[Text]:
    """Why calls did not return: most often it is outside the way's domain, and the battery says so as well."""
    if not verbose:
        return []
    head = f" {one['impl']}  {one['tool']}: not called, "
    return [Text(f"{head}{words.count(n, 'case')}: {why}", style="dim") for why, n in one["raised"].items()]


def closing(record: Mapping[str, Any]) -> list[str]:
    found = record["sanitized"]
    if not found:
        return []
    ways = len({(one["op"], one["impl"]) for one in found})
    tools = ", ".join(dict.fromkeys(one["tool"] for one in found))
    said = f"{words.count(ways, 'way')} under {tools}"
    wrong = list(dict.fromkeys(f"{one['op']} {one['impl']}" for one in found if one["status"] == "wrong"))
    unknown = list(dict.fromkeys(f"{one['op']} {one['impl']}" for one in found if one["status"] == "unknown"))
    if not wrong and not unknown:
        return [f"{said}: nothing found."]
    parts = [f"errors in {', '.join(wrong)}"] if wrong else []
    parts += [f"cannot tell of {', '.join(unknown)}"] if unknown else []
    return [f"{said}: {'; '.join(parts)}."]
