"""A comparison as one HTML file that needs no network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernellab.comparison.compare import Comparison
from kernellab.comparison.pairs import Pair
from kernellab.comparison.statuses import StatusChange
from kernellab.reporting.comparisons import words
from kernellab.reporting.html.document import Sources, render
from kernellab.reporting.html.parts import asset, label
from kernellab.reporting.text import numbers

_TEMPLATES = Path(__file__).with_name("templates")
_LEAST_SCALE = 0.02  # the axis of the drawing shows at least ±2 %
_CLASSES = {"slower": "bad", "worse": "bad", "faster": "good", "better": "good", "not resolved": "warn"}


@dataclass(frozen=True)
class Drawing:
    """An interval on an axis from 0 to 100, with no change at 50."""

    low: float
    middle: float
    high: float
    description: str


@dataclass(frozen=True)
class PairRow:
    verdict: str
    style: str
    op: str
    impl: str
    case: str
    series: str
    before: str
    after: str
    change: str
    interval: str
    drawing: Drawing | None
    remark: str


@dataclass(frozen=True)
class ChangeRow:
    verdict: str
    style: str
    op: str
    impl: str
    case: str
    change: str
    reason: str


def document(comparison: Comparison, home: str = "") -> str:
    """The text of the file. A server has a `home`."""
    pairs = words.ordered(comparison.pairs)
    scale = _scale(pairs)
    return render(
        _TEMPLATES,
        "comparison.html",
        Sources(styles=[asset(__file__, "comparison.css")]),
        home=home,
        title=label(f"{comparison.before.name} and {comparison.after.name}", 80),
        answer=label(words.answer(comparison)),
        style={0: "good", 1: "bad"}.get(comparison.exit_code, "warn"),
        counts=words.counts(comparison),
        sides=[label(line) for line in words.sides(comparison)],
        pairs=[_pair_row(pair, scale) for pair in pairs],
        with_series=words.has_several_series(comparison),
        with_remarks=words.has_remarks(pairs),
        scale=words.change(math.exp(scale)),
        changes=[_change_row(change) for change in words.status_changes(comparison)],
        notes=[label(note) for note in words.notes(comparison)],
        advice=words.advice(comparison),
    )


def _scale(pairs: Sequence[Pair]) -> float:
    """The logarithm of the ratio at the right end of the axis: nine of ten intervals fit."""
    ends = sorted(max(abs(math.log(pair.low)), abs(math.log(pair.high))) for pair in pairs if pair.low and pair.high)
    return max(_LEAST_SCALE, ends[int(0.9 * (len(ends) - 1))] if ends else 0.0)


def _drawing(pair: Pair, scale: float) -> Drawing | None:
    if not pair.low or not pair.high:
        return None
    low, middle, high = (
        min(100.0, max(0.0, 50 + 50 * math.log(ratio) / scale)) for ratio in (pair.low, pair.ratio, pair.high)
    )
    return Drawing(
        round(low, 1), round(middle, 1), round(high, 1), f"{words.change(pair.ratio)}, {words.interval(pair)}"
    )


def _pair_row(pair: Pair, scale: float) -> PairRow:
    result = pair.key.result
    return PairRow(
        verdict=pair.verdict,
        style=_CLASSES.get(pair.verdict, ""),
        op=label(result.op),
        impl=label(result.impl),
        case=label(words.case_label(result.case)),
        series=label(words.series(pair.key)),
        before=numbers.duration(pair.before_us),
        after=numbers.duration(pair.after_us),
        change=words.change(pair.ratio),
        interval=words.interval(pair),
        drawing=_drawing(pair, scale),
        remark=label(words.remark(pair)) if words.remark(pair) else "",
    )


def _change_row(change: StatusChange) -> ChangeRow:
    return ChangeRow(
        verdict=change.verdict,
        style=_CLASSES.get(change.verdict, ""),
        op=label(change.key.op),
        impl=label(change.key.impl),
        case=label(words.case_label(change.key.case)),
        change=f"{change.before.status} → {change.after.status}",
        reason=label(change.after.reason) if change.after.reason else "",
    )
