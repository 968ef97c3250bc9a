"""Charts made of characters: a trend on one line; where plotext is installed, sweeps with bands and plain curves."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from types import ModuleType

from rich.console import Console
from rich.text import Text

from kernellab.reporting.charts.series import Point, Sweep

_HEIGHT, _PIPED_WIDTH, _WIDEST = 18, 80, 120
_COLOURS = ("blue", "red", "green", "magenta", "orange", "cyan", "gray", "yellow")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MOST_TICKS = 8
_BLOCKS = "▁▂▃▄▅▆▇█"


def show(sweep: Sweep, out: Console) -> None:
    """One curve per implementation, in colours on a terminal and in letters elsewhere; bars are the 0.2–0.8 band."""
    try:
        import plotext
    except ImportError:
        return
    coloured = _begin(plotext, out)
    curves = {impl: curve for impl in sweep.impls if (curve := sweep.curve(impl))}
    styles = {impl: _style(number, coloured) for number, impl in enumerate(curves)}
    for impl, curve in curves.items():
        for size, point in curve.items():
            bar = {**styles[impl], "marker": "│"}
            plotext.plot([_x(sweep, size)] * 2, [point.low, point.high], **bar)
    for impl, curve in curves.items():
        label = impl
        for stretch in _stretches(sweep.sizes, curve):
            xs, ys = [_x(sweep, size) for size in stretch], [curve[size].value for size in stretch]
            (plotext.plot if len(stretch) > 1 else plotext.scatter)(xs, ys, label=label, **styles[impl])
            label = ""  # once in the legend
    plotext.ylim(0, None)
    plotext.title(f"{sweep.op} {sweep.label}, {sweep.unit}")
    ticks = _ticks(sweep.sizes)
    plotext.xticks([_x(sweep, size) for size in ticks], [str(size) for size in ticks])
    _end(plotext, out, coloured)


def sparkline(values: Sequence[float], width: int, least_range: float = 0.0) -> str:
    """A trend as blocks of eight heights, from its lowest value to its highest; neighbours share a block where there
    are more than `width`. `least_range`: a smaller range, relative to the lowest value, does not fill the height."""
    count = min(width, len(values))
    edges = [round(number * len(values) / count) for number in range(count + 1)] if count else []
    means = [statistics.fmean(values[start:end]) for start, end in itertools.pairwise(edges)]
    if not means:
        return ""
    low, high = min(means), max(means)
    height = max(high - low, least_range * low)
    middle = (height - (high - low)) / 2  # a small range lies in the middle
    steps = [(value - low + middle) / height if height else 0.5 for value in means]
    return "".join(_BLOCKS[min(len(_BLOCKS) - 1, int(step * len(_BLOCKS)))] for step in steps)


def lines(curves: Mapping[str, Mapping[int, float]], out: Console) -> None:
    """Curves of plain numbers, by name; nothing where plotext is missing."""
    try:
        import plotext
    except ImportError:
        return
    coloured = _begin(plotext, out)
    for number, (name, curve) in enumerate(curves.items()):
        plotext.plot(list(curve), list(curve.values()), label=name, **_style(number, coloured))
    plotext.ylim(0, None)
    _end(plotext, out, coloured)


def _begin(plotext: ModuleType, out: Console) -> bool:
    """Starts an empty chart as wide as the terminal; returns whether it may be coloured."""
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(min(out.width, _WIDEST) if out.is_terminal else _PIPED_WIDTH, _HEIGHT)
    return out.is_terminal and not out.no_color


def _style(number: int, coloured: bool) -> dict[str, str]:
    if coloured:
        return {"color": _COLOURS[number % len(_COLOURS)], "marker": "braille"}
    return {"marker": _LETTERS[number % len(_LETTERS)]}


def _end(plotext: ModuleType, out: Console, coloured: bool) -> None:
    chart = plotext.build()
    plotext.clear_figure()
    out.print(Text.from_ansi((chart if coloured else plotext.uncolorize(chart)).rstrip("\n")))
    out.print()


def _x(sweep: Sweep, size: int) -> float:
    return math.log2(size) if sweep.geometric else float(size)


def _stretches(sizes: Sequence[int], curve: Mapping[int, Point]) -> list[list[int]]:
    """Neighbouring sizes that have points. No line crosses a size where an implementation is wrong."""
    return [list(run) for timed, run in itertools.groupby(sizes, key=lambda size: size in curve) if timed]


def _ticks(sizes: Sequence[int]) -> list[int]:
    step = -(-len(sizes) // _MOST_TICKS)
    return list(sizes[::step])
