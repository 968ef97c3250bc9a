"""Two profiles compared: how long a step takes now, and which operators and kernels made the difference."""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.analysis.comparison import ComparisonDocument, Difference, StepChange
from kernellab.base.text import printable
from kernellab.reporting.text import numbers as words
from kernellab.reporting.text.layout import Layout


def lines(document: ComparisonDocument, *, rows: int = 10, name_width: int = 80) -> list[str]:
    layout = Layout(name_width)
    answer = f"{_step_sentence(document['step_us'])}{_largest_change(document, layout)}"
    text = layout.sentences([answer, *(f"Note: {printable(note)}" for note in document["notes"])])
    for kind, differences in (("operators", document["operators"]), ("kernels", document["kernels"])):
        changed = [row for row in differences if row["change_us"]]
        if changed:
            text += ["", *_table(kind, changed, rows, layout)]
    return text


def _step_sentence(step: StepChange) -> str:
    before_us, after_us = step["a"], step["b"]
    times = f"a step takes {words.duration(after_us)}, it took {words.duration(before_us)}"
    if not before_us or not after_us:
        return f"One of the traces has no steps to compare: {times}."
    condition = "both as profiled" if step["as_profiled"] else "without the profiler"
    return f"{words.times(after_us / before_us)} the time: {times}, {condition}."


def _largest_change(document: ComparisonDocument, layout: Layout) -> str:
    largest = max(document["operators"], key=lambda row: abs(row["change_us"]), default=None)
    if largest is None or not largest["change_us"]:
        return " No operator's time changed."
    return f" Largest change: {printable(largest['name'], layout.name)}, {_signed(largest['change_us'])}."


def _signed(change_us: float) -> str:
    return f"{'+' if change_us > 0 else '−'}{words.duration(abs(change_us))}"


def _table(kind: str, changed: Sequence[Difference], rows: int, layout: Layout) -> list[str]:
    """Times per step; what changed most comes first."""
    body = [
        [row["name"], words.duration(row["a_us"]), words.duration(row["b_us"]), _signed(row["change_us"])]
        for row in changed[:rows]
    ]
    return layout.table([kind, "before", "after", "change"], body, total=len(changed), drop_first=[1, 2])
