"""What was tried of each way, in a table, and below it what went wrong, smallest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernellab.reporting.text import numbers as words

_SHOWN = 3  # failures of one kind
_WIDE = 118


def show(record: Mapping[str, Any], out: Console, *, verbose: bool) -> None:
    for op in dict.fromkeys(one["op"] for one in record["batteries"]):
        found = [one for one in record["batteries"] if one["op"] == op]
        out.print(Text(f"{op} · the battery", style="bold"))
        out.print(_table(found, out.width))
        kinds = {r["impl"]: r["kind"] for r in record["results"] if r["op"] == op}
        for one in found:
            if kinds.get(one["impl"]) == "compile":
                why = "ten trials beside the declared cases, as each compiles anew"
                out.print(Text(f" {one['impl']}  {why}", style="dim"))
            for line in [*_failures(one, verbose), *_searched(one), *(_kinds(one) if verbose else ())]:
                out.print(line, soft_wrap=not out.is_terminal)
        for line in _told_once(found):
            out.print(line, soft_wrap=not out.is_terminal)
        out.print()


def _table(found: list[dict[str, Any]], width: int) -> Table:
    table = Table(box=None, pad_edge=True, padding=(0, 1), header_style="dim")
    for title in ("way", "tried", "passed", "outside", "worst error", "beside", "at"):
        text = title in ("way", "beside", "at")
        if title != "at" or width >= _WIDE:
            table.add_column(title, justify="left" if text else "right", no_wrap=title != "at")
    for one in found:
        outside = sum(one["outside"].values()) + sum(one["unknown"].values())
        cells = [
            Text(one["impl"] + (" (interpreter)" if one["interpreter"] else "")),
            Text(str(one["tried"])),
            Text(str(one["passed"]), style="" if one["passed"] == one["tried"] else "bold red"),
            Text(str(outside) if outside else ""),
            *_worst(one["impl"], one["worst"]),
        ]
        table.add_row(*cells[: len(table.columns)])
    return table


def _worst(impl: str, worst: Mapping[str, Any] | None) -> list[Text]:
    if worst is None:
        return [Text("")] * 3
    peer = worst["peer"]
    beside = f"{peer['impl']}'s {peer['max']:.2g}" if peer["max"] is not None and peer["impl"] != impl else ""
    return [Text(f"{worst['errors']['max']:.2g}"), Text(beside), Text(worst["label"], style="dim")]


def _failures(one: Mapping[str, Any], verbose: bool) -> list[Text]:
    lines = []
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for failure in one["failures"]:
        by_kind.setdefault(failure["kind"], []).append(failure)
    for kind, failures in by_kind.items():
        shown = failures if verbose else failures[:_SHOWN]
        for failure in shown:
            head = (f" {one['impl']}  {failure['status']}: ", "bold red")
            lines.append(Text.assemble(head, (f"{kind}: ", "bold"), f"{failure['label']}: {failure['reason']}"))
        if len(failures) > len(shown):
            more = len(failures) - len(shown)
            lines.append(
                Text(f" {one['impl']}  {kind}: and {words.count(more, 'trial')} more (--verbose)", style="dim")
            )
    return lines


def _searched(one: Mapping[str, Any]) -> list[Text]:
    """What was drawn beyond the battery, and what reproduces a failure."""
    search, way = one.get("search"), one["impl"]
    if search is None:
        return []
    said = f" {way}  {search['drawn']} drawn by search in {search['seconds']:.1f} s"
    said += f" ({search['outside']} outside its domain)" if search["outside"] else ""
    if not any(failure["kind"] == "search" for failure in one["failures"]):
        return [Text(f"{said}, none failed", style="dim")]
    if "script" not in search:
        return [Text(f"{said}, the last one failed", style="dim")]
    steps = words.count(search["shrinking"], "trial")
    lines = [Text(f"{said}, one failed; made smaller with {steps} more. It is reproduced by:", style="dim")]
    lines += [Text(f"     {line}") for line in search["script"]]
    if "file" in search:
        lines.append(Text(f" {way}  whole, in the run's folder: {search['file']}", style="dim"))
    return lines


def _kinds(one: Mapping[str, Any]) -> list[Text]:
    said = ", ".join(f"{kind} {count['passed']}/{count['tried']}" for kind, count in one["kinds"].items())
    lines = [Text(f" {one['impl']}  passed by kind: {said}", style="dim")]
    if one["worst"]:
        mine, peer = one["worst"]["errors"], one["worst"]["peer"]
        place = ", ".join(map(str, mine["at"]))
        beside = f"; {peer['impl']}'s {words.errors(peer)}" if peer["impl"] != one["impl"] else ""
        lines.append(Text(f" {one['impl']}  worst error: {words.errors(mine)} at [{place}]{beside}", style="dim"))
    return lines


def _told_once(found: list[dict[str, Any]]) -> list[Text]:
    """Why trials were not made or not judged, and notes: each once, with the ways it is said of."""
    lines = [
        Text(f" {one['impl']}  a stored failure passes now: {label}", style="dim")
        for one in found
        for label in one["mended"]
    ]
    for what, style in (("outside", "dim"), ("unknown", "yellow"), ("notes", "yellow")):
        reasons: dict[str, list[str]] = {}
        for one in found:
            for reason, count in one[what].items():
                reasons.setdefault(reason, []).append(f"{one['impl']} {count}")
        word = {"outside": "outside", "unknown": "not judged", "notes": "note"}[what]
        lines += [Text(f" {word} ({', '.join(ways)}): {reason}", style=style) for reason, ways in reasons.items()]
    return lines


def failing(record: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """What is to be said of a way, by op and name, that is right where it was declared and fails in the battery."""
    return {
        (
            one["op"],
            one["impl"],
        ): f"{len(one['failures'])} of {words.count(one['tried'], 'trial')} failed"
        for one in record["batteries"]
        if one["failures"]
    }


def closing(record: Mapping[str, Any]) -> list[str]:
    """How much was tried in all, who failed, and of whom nothing can be told."""
    found = record["batteries"]
    if not found:
        return []
    tried = sum(one["tried"] for one in found)
    failures = {_name(one): len(one["failures"]) for one in found if one["failures"]}
    unjudged = {_name(one): sum(one["unknown"].values()) for one in found if one["unknown"]}
    said = [f"{words.count(tried, 'trial')} in the battery, all passed"] if tried else []
    if failures:
        said = [f"{words.count(tried, 'trial')} in the battery, {sum(failures.values())} failed: {', '.join(failures)}"]
    if unjudged:
        count = str(sum(unjudged.values())) if tried else "No trial of the battery"
        said.append(f"{count} could {'not ' if tried else ''}be judged: {', '.join(unjudged)}")
    return ["; ".join(said or ["No trial of the battery applies"]) + "."]


def _name(one: Mapping[str, Any]) -> str:
    return f"{one['op']} {one['impl']}"
