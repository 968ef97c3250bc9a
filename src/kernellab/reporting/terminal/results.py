"""The results of a run: one table per op and case, fastest first, and closing lines that answer in words."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from kernellab.record.derived import DerivedRecord, DerivedResult
from kernellab.record.statuses import OK
from kernellab.reporting.charts import characters, files, series
from kernellab.reporting.charts import table as sweep_table
from kernellab.reporting.sentences import answer
from kernellab.reporting.sentences.answer import groups_outside_sweeps
from kernellab.reporting.sentences.statuses import is_right_here, notes, status_text
from kernellab.reporting.sentences.times import (
    comparison_notes,
    cross_check_notes,
    energy_notes,
    limit_notes,
    time_table,
    timed,
    timing_label,
    trust_notes,
)
from kernellab.reporting.terminal import battery, details, panel, sanitizer
from kernellab.reporting.text import numbers
from kernellab.reporting.text.table import Cell, Column, Row, Table, print_table


def show(record: DerivedRecord, out: Console, *, verbose: bool = False) -> None:
    """The whole record, then the answer."""
    for group in groups_outside_sweeps(record):
        show_group(group, record, out, verbose=verbose)
    show_sweeps(record, out, more_than=sweep_table.COMPACT)
    battery.show(record["batteries"], record["results"], out, verbose=verbose)
    sanitizer.show(record["sanitized"], out, verbose=verbose)
    for line in answer.closing(record):
        out.print(Text(line), soft_wrap=not out.is_terminal)


def show_sweeps(record: DerivedRecord, out: Console, *, more_than: int) -> None:
    """Tables of the sweeps of more sizes than this; charts and growth of every sweep that was timed."""
    for sweep in series.find(record):
        if len(sweep.sizes) > more_than:
            sweep_table.show(sweep, record, out)
        if sweep.timed:
            characters.show(sweep, out)
        for line in sweep_table.growth(sweep):
            out.print(Text(line), soft_wrap=not out.is_terminal)


def show_files(written: list[Path], folder: str, out: Console) -> None:
    """The files that were written, and which packages are missing for others."""
    for name in files.group_names(written, folder):
        out.print(Text(f"curves: {name}", style="dim"), soft_wrap=True)
    missing = files.missing_packages() if written else None
    if missing:
        out.print(Text(missing, style="dim"))


# One op at one case ------------------------------------------------------------------------------------


def show_group(group: list[DerivedResult], record: DerivedRecord, out: Console, *, verbose: bool = False) -> None:
    """The table of times of one op at one case, and what has no place in it."""
    op, case = group[0]["op"], group[0]["case"]
    device = record["machine"].get("device", case["device"])
    out.print(Text.assemble((op, "bold"), f" · {numbers.case_label(case)} · {device}{timing_label(group)}"))
    passes = list(group[0]["derived"]["passes"])
    in_table: set[str] = set()
    for pass_name in passes:
        verdicts = [(r, r["derived"]["passes"][pass_name]) for r in group if is_right_here(r)]
        rows = [row for result, pass_verdict in verdicts if (row := timed(result, pass_verdict))]
        rows.sort(key=lambda row: row.time["median_us"])
        in_table |= {row.impl for row in rows}
        if rows and passes != ["forward"]:
            out.print(Text(f" {pass_name}", style="italic"))
        if rows:
            print_table(time_table(rows), out)
        for line in trust_notes(rows):
            _print_wrapped([Text(line, style="yellow")], out)
        for line in comparison_notes(rows):
            _print_wrapped([Text(line, style="yellow")], out)
        remarks = [*limit_notes(rows, record["machine"].get("ceilings")), *energy_notes(rows, pass_name)]
        for line in (*remarks, *cross_check_notes(rows, pass_name)):
            _print_wrapped([Text(line, style="dim")], out)
    panel.show(group, out)
    width = max(len(r["impl"]) for r in group)
    for result in group:
        head = f"{result['impl']:<{width}}"
        if result["impl"] not in in_table or result["derived"]["status"] != OK.name:
            _print_wrapped([head, status_text(result, record)], out)
        for note in notes(result):
            _print_wrapped([head, Text(f"note: {note}", style="yellow")], out)
        for line in details.detail_lines(result) if verbose else ():
            _print_wrapped([head, Text(line, style="dim")], out)
    out.print()


def _print_wrapped(cells: list[Cell], out: Console) -> None:
    """A line whose last cell is wrapped beside the others on a terminal; elsewhere one line, however long."""
    columns = [*(Column("", "left") for _ in cells[1:]), Column("", "left", wrap_to=20)]
    print_table(Table(columns, [Row(cells)], header=False, unbroken=True), out)
