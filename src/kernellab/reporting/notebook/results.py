"""A run as a notebook shows it: the answer in words, a table and a chart for each op and case, and what was tried."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kernellab.record.batteries import BatterySummary
from kernellab.record.derived import DerivedRecord
from kernellab.reporting.charts import series
from kernellab.reporting.charts import table as sweep_table
from kernellab.reporting.charts.provenance import provenance
from kernellab.reporting.notebook import svg
from kernellab.reporting.notebook.fragment import FragmentConsole
from kernellab.reporting.sentences import answer
from kernellab.reporting.terminal import battery, results, sanitizer


def render_batteries(summaries: Sequence[BatterySummary]) -> str:
    """The fragment of HTML for batteries alone."""
    page = FragmentConsole()
    battery.show(summaries, [], page, verbose=False)
    return page.html()


def render(record: DerivedRecord) -> str:
    """The fragment of HTML for a derived record."""
    page = FragmentConsole()
    for place, line in enumerate(answer.closing(record)):
        page.print(Text(line), style="" if place else "bold")
    for group in answer.groups_outside_sweeps(record):
        results.show_group(group, record, page)
        page.add(svg.bars(group))
    for sweep in series.find(record):
        if len(sweep.sizes) > sweep_table.COMPACT:
            sweep_table.show(sweep, record, page)
        page.add(svg.curves(sweep))
        for line in sweep_table.growth(sweep):
            page.print(Text(line))
    battery.show(record["batteries"], record["results"], page, verbose=False)
    sanitizer.show(record["sanitized"], page, verbose=False)
    page.print(Text(provenance(record)))
    return page.html()
