"""A sweep drawn with matplotlib, with machine, date and versions below it."""

from __future__ import annotations

import io
import math
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kernellab.base.paths import replace_file
from kernellab.record.derived import DerivedRecord
from kernellab.reporting.charts.provenance import provenance
from kernellab.reporting.charts.series import Sweep, ceiling, describe_gaps

_MARKERS = "os^vDPX*<>"
_MOST_LEVEL_TICKS = 8  # more are written at an angle


def draw(sweep: Sweep, record: DerivedRecord) -> Figure:
    """One curve per implementation with its 0.2–0.8 band. Sizes where it is not right are gaps, named in the legend."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    absent = []
    for number, impl in enumerate(sweep.impls):
        curve = sweep.curve(impl)
        problems = describe_gaps(sweep, impl)
        if not curve:
            absent.append(f"{impl} ({problems})")
            continue
        # A size without a point is NaN, so that neither line nor band crosses it.
        medians, lows, highs = (
            [getattr(curve[size], name) if size in curve else math.nan for size in sweep.sizes]
            for name in ("value", "low", "high")
        )
        label = f"{impl} ({problems})" if problems else impl
        colour, marker = f"C{number % 10}", _MARKERS[number % len(_MARKERS)]
        axes.plot(sweep.sizes, medians, color=colour, marker=marker, markersize=4, linewidth=1.4, label=label)
        axes.fill_between(sweep.sizes, lows, highs, color=colour, alpha=0.2, linewidth=0)
    _draw_ceiling(axes, sweep, record)
    if sweep.geometric:
        rotation = 45 if len(sweep.sizes) > _MOST_LEVEL_TICKS else 0
        axes.set_xscale("log", base=2)
        axes.set_xticks(sweep.sizes, [str(size) for size in sweep.sizes], rotation=rotation)
        axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel(" = ".join([sweep.dim, *sweep.together]))
    axes.set_ylabel("time, µs" if sweep.unit == "µs" else sweep.unit)
    axes.set_title(f"{sweep.op} {sweep.label}", fontsize=11)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    caption = [f"Median and 0.2–0.8 band. {provenance(record)}"]
    if absent:
        caption.append(f"Not drawn: {', '.join(absent)}")
    figure.supxlabel("\n".join(caption), fontsize=6, color="0.35", wrap=True)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Writes the same file for the same figure: no date of drawing, no random names."""
    with matplotlib.rc_context({"svg.hashsalt": "kernellab", "svg.fonttype": "none"}):
        picture, kind = io.BytesIO(), path.suffix[1:]
        figure.savefig(picture, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    replace_file(path, picture.getvalue())


def _draw_ceiling(axes: Axes, sweep: Sweep, record: DerivedRecord) -> None:
    limit = ceiling(sweep, record)
    if limit is not None:
        name, rate = limit
        axes.axhline(rate, color="0.5", linestyle="--", linewidth=1, label=f"{name}, measured")
