"""compute-sanitizer in the terminal: a table of what each tool found, and where each finding is."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from kernellab.record.schema import SanitizerOutcome
from kernellab.reporting.sentences import sanitizer
from kernellab.reporting.text.table import print_table


def show(sanitized: Sequence[SanitizerOutcome], out: Console, *, verbose: bool) -> None:
    """`sanitized` are outcomes with their verdicts."""
    for op in dict.fromkeys(entry["op"] for entry in sanitized):
        entries = [entry for entry in sanitized if entry["op"] == op]
        out.print(Text(f"{op} · under compute-sanitizer", style="bold"))
        print_table(sanitizer.table(entries), out)
        for line in [line for entry in entries for line in sanitizer.lines(entry, verbose=verbose)]:
            out.print(line, soft_wrap=not out.is_terminal)
        out.print()
