"""Charts as SVG inside a page: times as bars with their intervals, sweeps as curves. They need no script.

Texts and axes have the page's own colour. Every other colour has a contrast of at least 3 : 1 on white and on a
notebook's dark background.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from kernellab.base.text import printable
from kernellab.record.derived import DerivedResult
from kernellab.record.statuses import RIGHT
from kernellab.reporting.charts.series import Point, Sweep
from kernellab.reporting.text import numbers

COLOURS = ("#2a7fd4", "#c2571a", "#1f8a5b", "#a8559c", "#8a7a1f", "#7a6bd1", "#c0392b", "#2b8a8a")
_WIDTH, _LABEL, _VALUE, _ROW = 640, 130, 110, 22  # of a chart, its names, its values, one bar
_HEIGHT, _MARGIN = 260, 44  # of curves
_LONGEST_NAME = 20  # characters


@dataclass(frozen=True)
class _Bar:
    impl: str
    median_us: float
    low_us: float
    high_us: float


def bars(group: Sequence[DerivedResult]) -> str:
    """The times of one op at one case, the fastest first; empty where fewer than two were timed."""
    timed = [
        _Bar(r["impl"], time["median_us"], time["low_us"], time["high_us"])
        for r in group
        if r["derived"]["at_case"]["status"] in RIGHT and (time := r["derived"]["time"])
    ]
    timed.sort(key=lambda bar: bar.median_us)
    longest = max((bar.median_us for bar in timed), default=0.0)
    if len(timed) < 2 or longest <= 0:
        return ""
    scale = (_WIDTH - _LABEL - _VALUE) / longest
    limit = (_WIDTH - _VALUE + 8 - _LABEL) / scale  # an interval that is wider is cut, and has no end
    parts = []
    for place, bar in enumerate(timed):
        y = place * _ROW
        low, high = (_LABEL + min(us, limit) * scale for us in (bar.low_us, bar.high_us))
        middle = y + _ROW / 2
        end = f"M{high:.1f} {middle - 4}v8" if bar.high_us <= limit else ""
        parts += [
            _label(_LABEL - 8, middle, _short(bar.impl), "end"),
            f'<rect x="{_LABEL}" y="{y + 4}" width="{max(1.0, bar.median_us * scale):.1f}" height="{_ROW - 8}" '
            f'fill="{COLOURS[0]}"/>',
            f'<path d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 4}v8{end}" '
            'fill="none" stroke="currentColor"/>',
            _label(_WIDTH - _VALUE + 16, middle, numbers.duration(bar.median_us), "start"),
        ]
    title = "time of each implementation with its 99 % interval: " + ", ".join(
        f"{bar.impl} {numbers.duration(bar.median_us)}" for bar in timed
    )
    return _svg(title, _ROW * len(timed), parts)


def curves(sweep: Sweep) -> str:
    """The rate, or the time, of each implementation over the sizes of a sweep; empty where nothing was timed."""
    drawn = {impl: curve for impl in sweep.impls if (curve := sweep.curve(impl))}
    if not drawn:
        return ""
    top = max(point.value for curve in drawn.values() for point in curve.values())
    left, right, bottom = _MARGIN + 20, _WIDTH - _LABEL, _HEIGHT - _MARGIN
    positions = [math.log(size) if sweep.geometric else float(size) for size in sweep.sizes]
    span = (positions[-1] - positions[0]) or 1.0
    x = {
        size: left + (at - positions[0]) / span * (right - left)
        for size, at in zip(sweep.sizes, positions, strict=True)
    }

    def height(value: float) -> float:
        return bottom - value / (top or 1.0) * (bottom - 10)

    parts = [f'<path d="M{left} 10V{bottom}H{right}" fill="none" stroke="currentColor" opacity=".6"/>']
    for share in (0.0, 0.5, 1.0):
        parts.append(_label(left - 6, height(share * top), numbers.digits(share * top) if share else "0", "end"))
    for size in _ticks(sweep.sizes):
        parts.append(_label(x[size], bottom + 14, str(size), "middle"))
    axis = " = ".join([sweep.dim, *sweep.together])
    parts.append(_label((left + right) / 2, bottom + 32, axis, "middle"))
    parts.append(_label(left + 6, 10, "time, µs" if sweep.unit == "µs" else sweep.unit, "start"))
    for place, (impl, curve) in enumerate(drawn.items()):
        colour = COLOURS[place % len(COLOURS)]
        parts += _curve(curve, sweep.sizes, x, height, colour)
        y = 16 + 18 * place
        parts.append(f'<path d="M{right + 12} {y}h16" stroke="{colour}" stroke-width="3"/>')
        parts.append(_label(right + 34, y, _short(impl, 13), "start"))
    return _svg(f"{sweep.op} {sweep.label}: {', '.join(drawn)}", max(_HEIGHT, 16 + 18 * len(drawn)), parts)


def _curve(
    curve: dict[int, Point], sizes: Sequence[int], x: dict[int, float], height: Callable[[float], float], colour: str
) -> list[str]:
    """One implementation: a line that ends where a size is missing, and a dot with its interval at each size."""
    path, drawing = "", False
    parts = []
    for size in sizes:
        point = curve.get(size)
        if point is None:
            drawing = False
            continue
        path += f"{'L' if drawing else 'M'}{x[size]:.1f} {height(point.value):.1f}"
        drawing = True
        low, high = max(4.0, height(point.high)), height(point.low)
        parts.append(f'<path d="M{x[size]:.1f} {low:.1f}V{high:.1f}" stroke="{colour}" opacity=".5"/>')
        parts.append(f'<circle cx="{x[size]:.1f}" cy="{height(point.value):.1f}" r="3" fill="{colour}"/>')
    return [f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>', *parts]


def _ticks(sizes: Sequence[int], most: int = 7) -> list[int]:
    """Some of the sizes, the first and the last among them."""
    step = max(1, math.ceil((len(sizes) - 1) / (most - 1)))
    inner = list(sizes[:-1:step])
    if len(inner) > 1 and len(sizes) - 1 - (len(inner) - 1) * step < step / 2:
        inner.pop()  # too close to the last
    return [*inner, sizes[-1]]


def _short(name: str, most: int = _LONGEST_NAME) -> str:
    return printable(name, most)


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" dominant-baseline="middle" fill="currentColor">'
        f"{escape(printable(text))}</text>"
    )


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg role="img" viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" height="{height:.0f}" '
        f'font-family="system-ui, sans-serif" font-size="12"><title>{escape(printable(title))}</title>'
        f"{''.join(parts)}</svg>"
    )
