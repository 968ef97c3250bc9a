"""Figures of a report: what Plotly draws, as JSON, in colours that can be told apart on light and on dark paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from kernellab.base.json import JsonObject, JsonValue
from kernellab.record.derived import DerivedRecord, TrustVerdict
from kernellab.reporting.html.parts import label
from kernellab.reporting.report.parts.table import Table

# Each has a contrast of 3 : 1 or more to white and to the dark paper of base.css.
COLOURS = ("#2f7fd1", "#d2691e", "#2e9e5b", "#9a6fd0", "#d9485f", "#1797a6", "#8f8b1f", "#cf5fa8", "#a8744f", "#7d868f")
_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star", "hexagon", "pentagon")
LIMIT_COLOUR = "#808890"
_NAME_CHARACTERS = 40
_MARGIN, _FEW_DECADES, _MOST_DECADES = 0.15, 3, 30  # of logarithmic axes; the last to either side of 1


@dataclass(frozen=True)
class Figure:
    """A figure in its place: its id, what it shows in a sentence, and the same numbers as a table."""

    name: str
    title: str
    description: str
    table: Table | None = None
    height: int = 360  # pixels


@dataclass(frozen=True)
class Mark:
    """How an implementation is drawn, the same in every figure of a run."""

    colour: str
    symbol: str

    def of(self, trust: TrustVerdict | None) -> str:
        """The symbol of a time: open where the time is not trusted."""
        trusted = trust is None or trust["verdict"] == "trusted"
        return self.symbol if trusted else f"{self.symbol}-open"


def marks(record: DerivedRecord) -> Mapping[str, Mark]:
    """The mark of each implementation of a record."""
    names = dict.fromkeys(entry["impl"] for entry in (*record["results"], *record["code"]))
    return {
        name: Mark(COLOURS[number % len(COLOURS)], _SYMBOLS[number % len(_SYMBOLS)])
        for number, name in enumerate(names)
    }


def drawn_name(name: str) -> str:
    """A name as Plotly draws it. Plotly reads a few tags in texts; a name has none."""
    return escape(label(name, _NAME_CHARACTERS), quote=False)


def figure(
    traces: Iterable[JsonObject], x: JsonObject, y: JsonObject, *, height: int = 360, **layout: JsonValue
) -> JsonObject:
    """The JSON of a figure. Colours of paper, text and grid are set by the page."""
    return {
        "data": list(traces),
        "layout": {
            "height": height,
            "margin": {"l": 64, "r": 16, "t": 16, "b": 52},
            "xaxis": {"automargin": True, **x},
            "yaxis": {"automargin": True, **y},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "hovermode": "closest",
            **layout,
        },
    }


def log_axis(values: Sequence[float]) -> JsonObject:
    """A logarithmic axis that holds positive values, with a margin, and ticks at 1, 2 and 5 or at powers of ten."""
    low, high = _decade(min(values)) - _MARGIN, _decade(max(values)) + _MARGIN
    decades = range(math.floor(low), math.ceil(high) + 1)
    digits = (1, 2, 5) if high - low < _FEW_DECADES else (1,)
    ticks = [tick for decade in decades for digit in digits if low <= math.log10(tick := digit * 10.0**decade) <= high]
    texts: list[JsonValue] = [f"{tick:g}" for tick in ticks]
    return {"type": "log", "range": [low, high], "tickvals": [*ticks], "ticktext": texts}


def _decade(value: float) -> float:
    """The power of ten, which a record of a stranger may put at the ends of what a number can be."""
    return min(max(math.log10(value), -_MOST_DECADES), _MOST_DECADES) if value > 0 else -_MOST_DECADES
