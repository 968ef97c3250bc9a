"""The timing panel: all timers side by side, and what their differences show; of runs with `--panel`."""

from __future__ import annotations

from kernellab.record import verdict
from kernellab.reporting.report.parts.section import Run, Section
from kernellab.reporting.report.parts.table import from_terminal
from kernellab.reporting.sentences import panel
from kernellab.reporting.text import numbers


def section(run: Run) -> Section | None:
    panels = []
    for group in verdict.groups(run.record["results"]):
        table = panel.table(group)
        if table is not None:
            title = f"{group[0]['op']} {numbers.case_label(group[0]['case'])}"
            caption = f"{title}: medians by timer, the least overhead first"
            shown = from_terminal(table, caption)
            panels.append({"title": title, "table": shown, "lines": panel.regimes(group)})
    return Section("panel", "Timers", "panel.html", {"panels": panels}) if panels else None
