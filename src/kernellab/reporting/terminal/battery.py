"""The battery in the terminal: a table of what was tried of each implementation, and the failures below it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from kernellab.record.batteries import BatterySummary
from kernellab.record.schema import Result
from kernellab.reporting.sentences import battery
from kernellab.reporting.text.table import print_table


def show(batteries: Sequence[BatterySummary], results: Sequence[Result], out: Console, *, verbose: bool) -> None:
    for op in dict.fromkeys(summary["op"] for summary in batteries):
        summaries = [summary for summary in batteries if summary["op"] == op]
        out.print(Text(f"{op} · the battery", style="bold"))
        print_table(battery.table(summaries), out)
        lines = []
        for summary in summaries:
            lines += battery.lines(summary, results, verbose=verbose)
            lines += battery.passed_by_kind(summary) if verbose else []
        for line in [*lines, *battery.shared_reasons(summaries)]:
            out.print(line, soft_wrap=not out.is_terminal)
        out.print()
