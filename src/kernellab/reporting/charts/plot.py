"""A sweep's curves drawn with matplotlib, with what was measured where and when below them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from kernellab.reporting.charts.series import Sweep
from kernellab.reporting.text import numbers as words

_MARKERS = "os^vDPX*<>"


def draw(sweep: Sweep, record: Mapping[str, Any]) -> Figure:
    """One curve per way with its 0.2–0.8 band; sizes where a way is not right are gaps, named in the legend."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    absent = []
    for number, way in enumerate(sweep.ways):
        curve = sweep.curve(way)
        if not curve:
            absent.append(f"{way} ({_troubles(sweep, way)})")
            continue
        # A size without a point is NaN: neither line nor band crosses it.
        medians, lows, highs = (
            [getattr(curve[size], name) if size in curve else math.nan for size in sweep.sizes]
            for name in ("value", "low", "high")
        )
        troubles = _troubles(sweep, way)
        label = f"{way} ({troubles})" if troubles else way
        colour, marker = f"C{number % 10}", _MARKERS[number % len(_MARKERS)]
        axes.plot(sweep.sizes, medians, color=colour, marker=marker, markersize=4, linewidth=1.4, label=label)
        axes.fill_between(sweep.sizes, lows, highs, color=colour, alpha=0.2, linewidth=0)
    _ceiling(axes, sweep, record)
    if sweep.geometric:
        axes.set_xscale("log", base=2)
        axes.set_xticks(sweep.sizes, [str(size) for size in sweep.sizes], rotation=45 if len(sweep.sizes) > 8 else 0)
        axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel(" = ".join([sweep.dim, *sweep.together]))
    axes.set_ylabel("time, µs" if sweep.unit == "µs" else sweep.unit)
    axes.set_title(f"{sweep.op} {sweep.label}", fontsize=11)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    lines = [f"Median and 0.2–0.8 band. {words.provenance(record)}"]
    if absent:
        lines.append(f"Not drawn: {', '.join(absent)}")
    figure.supxlabel("\n".join(lines), fontsize=6, color="0.35", wrap=True)
    return figure


def save(figure: Figure, path: Path) -> None:
    """The same figure gives the same file: no date of drawing, no random names."""
    with matplotlib.rc_context({"svg.hashsalt": "kernellab", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _troubles(sweep: Sweep, way: str) -> str:
    """`wrong at 3 of 8 sizes`, for what is not drawn."""
    counts: dict[str, int] = {}
    for size in sweep.groups:
        result = sweep.result(size, way)
        status = "absent" if result is None else result["derived"]["status"]
        if status == "ok" and size not in sweep.curve(way):
            status = "not timed"
        if status != "ok":
            counts[status] = counts.get(status, 0) + 1
    return ", ".join(f"{status} at {n} of {len(sweep.groups)} sizes" for status, n in counts.items())


def _ceiling(axes: Any, sweep: Sweep, record: Mapping[str, Any]) -> None:
    ceilings = record["machine"].get("ceilings") or {}
    rate, name = ceilings.get("copy_gbps"), "copy bandwidth"
    if sweep.unit == "TFLOP/s":
        rate, name = ceilings.get("matmul_tflops", {}).get(sweep.case["dtype"]), "matmul rate"
    if rate and sweep.unit != "µs":
        axes.axhline(rate, color="0.5", linestyle="--", linewidth=1, label=f"{name}, measured")
