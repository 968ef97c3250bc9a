"""Curves as characters, where plotext is installed: a sweep's with their bands, or plain ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from kernellab.reporting.charts.series import Point, Sweep

_HEIGHT, _PIPED_WIDTH, _WIDEST = 18, 80, 120
_COLOURS = ("blue", "red", "green", "magenta", "orange", "cyan", "gray", "yellow")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def show(sweep: Sweep, out: Console) -> None:
    """One curve per way, told apart by colour on a terminal and by letter elsewhere; bars are the 0.2–0.8 band."""
    try:
        import plotext
    except ImportError:
        return
    colours = _begin(plotext, out)
    curves = {way: curve for way in sweep.ways if (curve := sweep.curve(way))}
    looks = {}
    for number, way in enumerate(curves):
        looks[way] = _look(number, colours)
        for size, point in curves[way].items():
            bar = {**looks[way], "marker": "│"}
            plotext.plot([_x(sweep, size)] * 2, [point.low, point.high], **bar)
    for way, curve in curves.items():
        label = way
        for stretch in _stretches(sweep.sizes, curve):
            xs, ys = [_x(sweep, size) for size in stretch], [curve[size].value for size in stretch]
            (plotext.plot if len(stretch) > 1 else plotext.scatter)(xs, ys, label=label, **looks[way])
            label = ""  # once in the legend
    plotext.ylim(0, None)
    plotext.title(f"{sweep.op} {sweep.label}, {sweep.unit}")
    ticks = _ticks(sweep.sizes)
    plotext.xticks([_x(sweep, size) for size in ticks], [str(size) for size in ticks])
    _end(plotext, out, colours)


def lines(curves: Mapping[str, Mapping[int, float]], out: Console) -> None:
    """Curves of plain numbers, by name; nothing where plotext is missing."""
    try:
        import plotext
    except ImportError:
        return
    colours = _begin(plotext, out)
    for number, (name, curve) in enumerate(curves.items()):
        plotext.plot(list(curve), list(curve.values()), label=name, **_look(number, colours))
    plotext.ylim(0, None)
    _end(plotext, out, colours)


def _begin(plotext: Any, out: Console) -> bool:
    """An empty chart as wide as the screen; whether it may be coloured."""
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(min(out.width, _WIDEST) if out.is_terminal else _PIPED_WIDTH, _HEIGHT)
    return out.is_terminal and not out.no_color


def _look(number: int, colours: bool) -> dict[str, str]:
    if colours:
        return {"color": _COLOURS[number % len(_COLOURS)], "marker": "braille"}
    return {"marker": _LETTERS[number % len(_LETTERS)]}


def _end(plotext: Any, out: Console, colours: bool) -> None:
    drawn = plotext.build()
    plotext.clear_figure()
    out.print(Text.from_ansi((drawn if colours else plotext.uncolorize(drawn)).rstrip("\n")))
    out.print()


def _x(sweep: Sweep, size: int) -> float:
    return math.log2(size) if sweep.geometric else float(size)


def _stretches(sizes: Sequence[int], curve: Mapping[int, Point]) -> list[list[int]]:
    """Neighbouring sizes without a gap: a way that is wrong at a size has no point there, and no line across it."""
    return [list(run) for timed, run in itertools.groupby(sizes, key=lambda size: size in curve) if timed]


def _ticks(sizes: Sequence[int], most: int = 8) -> list[int]:
    step = -(-len(sizes) // most)
    return list(sizes[::step])
