"""A comparison in the terminal: the answer first, then what changed, then why that is so."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from kernellab.base.text import plural
from kernellab.comparison.compare import Comparison
from kernellab.comparison.pairs import Pair
from kernellab.comparison.statuses import StatusChange
from kernellab.reporting.comparisons import words
from kernellab.reporting.text import numbers
from kernellab.reporting.text.table import Column, Row, Table, print_table

_STYLES = {"slower": "red", "faster": "green", "worse": "red", "better": "green", "cannot tell": "yellow"}
_SHORTEST = 12  # characters that a name may be cut to
_MOST_ROWS = 30


def show(comparison: Comparison, out: Console, *, verbose: bool = False) -> None:
    code = comparison.exit_code
    out.print(words.answer(comparison), style={0: "bold green", 1: "bold red"}.get(code, "bold yellow"))
    for line in words.sides(comparison):
        out.print(f"  {line}", style="dim")
    _show_changes(words.status_changes(comparison), out)
    _show_pairs(comparison, out, verbose=verbose)
    notes = [*words.notes(comparison), *filter(None, [words.advice(comparison)])]
    if notes:
        out.print()
    for note in notes:
        out.print(note)


def _show_changes(changes: Sequence[StatusChange], out: Console) -> None:
    if not changes:
        return
    out.print()
    rows = [
        Row(
            [
                change.verdict,
                change.key.op,
                change.key.impl,
                words.case_label(change.key.case),
                f"{change.before.status} → {change.after.status}",
                change.after.reason or "",
            ],
            _STYLES.get(change.verdict, ""),
        )
        for change in changes
    ]
    columns = [
        Column("status", "left"),
        Column("op", "left", cut_to=_SHORTEST),
        Column("impl", "left", cut_to=_SHORTEST),
        Column("case", "left", cut_to=_SHORTEST),
        Column("change", "left"),
        Column("reason", "left", wrap_to=30),
    ]
    print_table(Table(columns, rows), out)


def _show_pairs(comparison: Comparison, out: Console, *, verbose: bool) -> None:
    pairs = words.ordered(comparison.pairs)
    if not pairs:
        return
    shown = pairs if verbose else [pair for pair in pairs if pair.verdict != "same"][:_MOST_ROWS]
    out.print()
    if shown:
        print_table(_pair_table(comparison, shown), out)
    rest = pairs[len(shown) :]
    if rest:
        alike = "the same" if all(pair.verdict == "same" for pair in rest) else "more"
        joined = " … and " if shown else "  "
        out.print(f"{joined}{plural(len(rest), 'time')} {alike}: --verbose shows {_them(rest)}", style="dim")


def _them(rest: Sequence[Pair]) -> str:
    return "it" if len(rest) == 1 else "them"


def _pair_table(comparison: Comparison, pairs: Sequence[Pair]) -> Table:
    with_series, with_remarks = words.has_several_series(comparison), words.has_remarks(pairs)
    rows = [
        Row(
            [
                pair.verdict,
                pair.key.result.op,
                pair.key.result.impl,
                words.case_label(pair.key.result.case),
                *([words.series(pair.key)] if with_series else []),
                numbers.duration(pair.before_us),
                numbers.duration(pair.after_us),
                words.change(pair.ratio),
                words.interval(pair),
                *([words.remark(pair)] if with_remarks else []),
            ],
            _STYLES.get(pair.verdict, ""),
        )
        for pair in pairs
    ]
    columns = [
        Column("verdict", "left"),
        Column("op", "left", cut_to=_SHORTEST),
        Column("impl", "left", cut_to=_SHORTEST),
        Column("case", "left", cut_to=_SHORTEST),
        *([Column("series", "left", drop=3)] if with_series else []),
        Column("before", drop=2),
        Column("after", drop=1),
        Column("change"),
        Column("interval", "left", drop=4),
        *([Column("remark", "left", wrap_to=24, drop=5)] if with_remarks else []),
    ]
    return Table(columns, rows)
