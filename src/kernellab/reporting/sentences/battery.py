"""The battery: a table of what was tried of each implementation, and the failures in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from kernellab.record.batteries import BatterySummary, RepeatedFailure, WorstTrial, repeated_failures
from kernellab.record.derived import DerivedRecord
from kernellab.record.schema import ErrorsJson, Result
from kernellab.reporting.text import numbers
from kernellab.reporting.text.table import Cell, Column, Row, Table

_FAILURES_PER_KIND = 3


def table(summaries: list[BatterySummary]) -> Table:
    some_not_judged = any(summary["unknown"] for summary in summaries)
    titles = ("tried", "passed", "outside", *(("not judged",) if some_not_judged else ()), "worst error")
    columns = [
        Column("impl", "left", cut_to=20),
        *(Column(title) for title in titles),
        Column("peer", "left", drop=1),
        Column("at", "left", drop=2, wrap_to=40, style="dim"),
    ]
    rows = []
    for summary in summaries:
        outside, not_judged = sum(summary["outside"].values()), sum(summary["unknown"].values())
        cells: list[Cell] = [
            summary["impl"] + (" (interpreter)" if summary["interpreter"] else ""),
            str(summary["tried"]),
            Text(str(summary["passed"]), style="" if summary["passed"] == summary["tried"] else "bold red"),
            str(outside or ""),
            *([str(not_judged or "")] if some_not_judged else []),
            *_worst_error(summary["impl"], summary["worst"]),
        ]
        rows.append(Row(cells))
    return Table(columns, rows)


def lines(summary: BatterySummary, results: Sequence[Result], *, verbose: bool) -> list[Text]:
    """What the table does not say of an implementation: how it was tried, its failures, and its search."""
    of_impl = [r for r in results if (r["op"], r["impl"]) == (summary["op"], summary["impl"])]
    remarks = []
    if any(r["check"] is not None and r["check"].get("draws") for r in of_impl):
        remarks.append("a few trials of hundreds of calls: it draws its own random numbers and is judged statistically")
    if any(r["kind"] == "compile" for r in of_impl):
        remarks.append("ten trials besides the declared cases, because each compiles anew")
    return [
        *(Text(f" {summary['impl']}  {remark}", style="dim") for remark in remarks),
        *_failures(summary, verbose),
        *_search(summary),
    ]


def _worst_error(impl: str, worst: WorstTrial | None) -> list[str]:
    """The worst error, the peer's error at the same trial, and the trial, as cells."""
    if worst is None:
        return [""] * 3
    peer = worst["peer"]
    peer_error = ""
    if peer is not None and peer["max"] is not None and peer["impl"] != impl:
        peer_error = f"{peer['impl']}'s {peer['max']:.2g}"
    return [f"{worst['errors']['max']:.2g}", peer_error, worst["label"]]


def _failures(summary: BatterySummary, verbose: bool) -> list[Text]:
    """Each reason once with its count, and a few of the wrong values of each kind; all trials if `verbose`."""
    if verbose:
        failures = [RepeatedFailure(failure, {failure["kind"]: 1}) for failure in summary["failures"]]
    else:
        failures = repeated_failures(summary["failures"])
    lines, by_kind = [], Counter[str]()
    for failure in failures:
        kind, status = failure.first["kind"], failure.first["status"]
        by_kind[kind] += failure.count == 1
        if verbose or failure.count > 1 or by_kind[kind] <= _FAILURES_PER_KIND:
            head = (f" {summary['impl']}  {status}: ", "bold red")
            lines.append(Text.assemble(head, (f"{kind}: ", "bold"), failure.sentence))
    for kind, count in by_kind.items():
        if count > _FAILURES_PER_KIND and not verbose:
            more = numbers.count(count - _FAILURES_PER_KIND, "trial")
            lines.append(Text(f" {summary['impl']}  {kind}: and {more} more (--verbose)", style="dim"))
    return lines


def _search(summary: BatterySummary) -> list[Text]:
    """How many trials the search drew beyond the battery, and the script that reproduces a failure."""
    search, impl = summary["search"], summary["impl"]
    if search is None:
        return []
    drawn = f" {impl}  {search['drawn']} drawn by search in {search['seconds']:.1f} s"
    drawn += f" ({search['outside']} outside its domain)" if search["outside"] else ""
    if not any(failure["kind"] == "search" for failure in summary["failures"]):
        if search["drawn"] == search["outside"]:
            return [Text(f"{drawn}: nothing inside its domain was found, so nothing was searched", style="yellow")]
        return [Text(f"{drawn}, none failed", style="dim")]
    if "script" not in search:
        return [Text(f"{drawn}, the last one failed", style="dim")]
    shrinking = numbers.count(search["shrinking"], "more trial")
    lines = [Text(f"{drawn}, one failed; made smaller with {shrinking}. This reproduces it:", style="dim")]
    lines += [Text(f"     {line}") for line in search["script"]]
    if "file" in search:
        lines.append(Text(f" {impl}  the whole script, in the run's folder: {search['file']}", style="dim"))
    return lines


def passed_by_kind(summary: BatterySummary) -> list[Text]:
    """How many trials of each kind passed, and the worst error in every measure."""
    counts = ", ".join(f"{kind} {count['passed']}/{count['tried']}" for kind, count in summary["kinds"].items())
    lines = [Text(f" {summary['impl']}  passed by kind: {counts}", style="dim")]
    worst = summary["worst"]
    if worst is not None:
        errors, peer = worst["errors"], worst["peer"]
        place = ", ".join(map(str, errors.get("at", ())))
        peer_error = (
            "" if peer is None or peer["impl"] == summary["impl"] else f"; {peer['impl']}'s {_error_text(peer)}"
        )
        text = f" {summary['impl']}  worst error: {_error_text(errors)} at [{place}]{peer_error}"
        lines.append(Text(text, style="dim"))
    return lines


def shared_reasons(summaries: list[BatterySummary]) -> list[Text]:
    """Why trials were not made or not judged, and notes: each once, with the implementations it applies to."""
    lines = [
        Text(f" {summary['impl']}  a stored failure passes now: {label}", style="dim")
        for summary in summaries
        for label in summary["mended"]
    ]
    for title, style, counts in (
        ("outside", "dim", {summary["impl"]: summary["outside"] for summary in summaries}),
        ("not judged", "yellow", {summary["impl"]: summary["unknown"] for summary in summaries}),
        ("note", "yellow", {summary["impl"]: summary["notes"] for summary in summaries}),
    ):
        impls_by_reason: dict[str, list[str]] = {}
        for impl, reasons in counts.items():
            for reason, count in reasons.items():
                impls_by_reason.setdefault(reason, []).append(f"{impl} {count}")
        lines += [
            Text(f" {title} ({', '.join(impls)}): {reason}", style=style) for reason, impls in impls_by_reason.items()
        ]
    return lines


def tried(record: DerivedRecord) -> dict[tuple[str, str], int]:
    """By op and implementation: the judged trials of its battery; empty where no battery ran."""
    if not record["batteries"]:
        return {}
    none = {(result["op"], result["impl"]): 0 for result in record["results"]}
    return none | {(summary["op"], summary["impl"]): summary["tried"] for summary in record["batteries"]}


def closing(batteries: Sequence[BatterySummary]) -> list[str]:
    """One sentence: the number of trials, which implementations failed, and which could not be judged."""
    if not batteries:
        return []
    tried = sum(summary["tried"] for summary in batteries)
    failures = {_name(summary): len(summary["failures"]) for summary in batteries if summary["failures"]}
    unjudged = {_name(summary): sum(summary["unknown"].values()) for summary in batteries if summary["unknown"]}
    parts = []
    if failures:
        total = sum(failures.values())
        parts = [f"{numbers.count(tried, 'trial')} in the battery, {total} failed: {', '.join(failures)}"]
    elif tried:
        parts = [f"{numbers.count(tried, 'trial')} in the battery, all passed"]
    if unjudged:
        count = f"{sum(unjudged.values())} could not" if tried else "No trial of the battery could"
        parts.append(f"{count} be judged: {', '.join(unjudged)}")
    return ["; ".join(parts or ["No trial of the battery applies"]) + "."]


def _name(summary: BatterySummary) -> str:
    return f"{summary['op']} {summary['impl']}"


def _error_text(measures: ErrorsJson) -> str:
    """How far a result is from the oracle, in every measure of error."""
    named = {
        "largest": measures["max"],
        "99.9 %": measures["q999"],
        "relative L2": measures["rel_l2"],
        "absolute": measures["max_abs"],
    }
    return ", ".join(f"{name} {value:.2g}" for name, value in named.items() if value is not None)
