"""The panel in the terminal: all timers side by side, and what their differences show."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from kernellab.record.derived import DerivedResult
from kernellab.reporting.sentences import panel
from kernellab.reporting.text.table import print_table


def show(group: Sequence[DerivedResult], out: Console) -> None:
    """Shows the panel if the implementations were timed in enough series."""
    table = panel.table(group)
    if table is not None:
        print_table(table, out)
        for line in panel.regimes(group):
            out.print(Text(f" {line}"))
