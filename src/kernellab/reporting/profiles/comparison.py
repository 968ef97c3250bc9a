"""Two profiles compared, in words and tables: what a step takes now, and what made the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernellab.base.text import shown
from kernellab.reporting.text import numbers as words
from kernellab.reporting.text.fitting import Fit


def lines(document: Mapping[str, Any], *, rows: int = 10, name_width: int = 80) -> list[str]:
    step, fit = document["step_us"], Fit(name_width)
    answer = f"{_answer(step)}{_mover(document, fit)}"
    found = fit.sentences([answer, *(f"Note: {shown(note)}" for note in document["notes"])])
    for what in ("operators", "kernels"):
        changed = [one for one in document[what] if one["change_us"]]
        if changed:
            found += ["", *_table(what, changed, rows, fit)]
    return found


def _answer(step: Mapping[str, Any]) -> str:
    before, after = step["a"], step["b"]
    times = f"a step takes {words.duration(after)}, it took {words.duration(before)}"
    if not before or not after:
        return f"One of the traces has no steps to compare: {times}."
    ratio = after / before
    how = "both as profiled" if step["as_profiled"] else "without the profiler"
    return f"{words.times(ratio)} the time: {times}, {how}."


def _mover(document: Mapping[str, Any], fit: Fit) -> str:
    most = max(document["operators"], key=lambda row: abs(row["change_us"]), default=None)
    if most is None or not most["change_us"]:
        return " No operator's time changed."
    return f" Most of the change: {shown(most['name'], fit.name)}, {_signed(most['change_us'])}."


def _signed(change_us: float) -> str:
    return f"{'+' if change_us > 0 else '−'}{words.duration(abs(change_us))}"


def _table(what: str, changed: Sequence[Mapping[str, Any]], rows: int, fit: Fit) -> list[str]:
    """In microseconds of a step, what changed most first."""
    body = [
        [one["name"], words.duration(one["a_us"]), words.duration(one["b_us"]), _signed(one["change_us"])]
        for one in changed[:rows]
    ]
    return fit.table([what, "before", "after", "change"], body, of=len(changed), spare=[1, 2])
