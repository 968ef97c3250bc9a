"""The roofline drawn with matplotlib: log-log, measured roofs, one point per way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError
from kernellab.reporting.text import numbers as words

_MARKERS = "os^vDPX*<>"


def plot(results: Sequence[Mapping[str, Any]], record: Mapping[str, Any], path: Path) -> None:
    """Ops without operations of their own have no intensity: they are drawn by bytes, against the bandwidth alone."""
    try:
        from matplotlib.figure import Figure

        from kernellab.reporting.charts.plot import save
    except ImportError:
        raise UserError("--plot needs matplotlib: pip install 'kernellab[plots]'") from None
    ceilings = record["machine"].get("ceilings")
    points = [one for one in results if one["roofline"] and one["roofline"]["gbps"]]
    if not ceilings or not points:
        raise UserError("--plot: no way was timed against this machine's ceilings, so there is no roofline to draw")
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    products = any(one["roofline"]["intensity"] for one in points)
    (_by_intensity if products else _by_bytes)(axes, points, ceilings)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)
    axes.set_title(f"{points[0]['op']} {words.case_label(points[0]['case'])}", fontsize=11)
    figure.supxlabel(words.provenance(record), fontsize=6, color="0.35", wrap=True)
    save(figure, path)


def _by_intensity(axes: Any, points: Sequence[Mapping[str, Any]], ceilings: Mapping[str, Any]) -> None:
    gbps = ceilings["copy_gbps"]
    for dtype in dict.fromkeys(one["case"]["dtype"] for one in points):
        rate = ceilings["matmul_tflops"].get(dtype)
        if not rate:
            continue
        ridge = rate * 1e3 / gbps
        xs = [ridge / 1000, ridge, ridge * 100]
        axes.plot(xs, [min(x * gbps / 1e3, rate) for x in xs], color="0.4", label=f"{dtype} roof, measured")
    for number, one in enumerate(one for one in points if one["roofline"]["intensity"]):
        roof = one["roofline"]
        marker = _MARKERS[number % len(_MARKERS)]
        axes.plot([roof["intensity"]], [roof["tflops"]], marker, color=f"C{number % 10}", label=_label(one))
    axes.set_xlabel("operations per byte")
    axes.set_ylabel("TFLOP/s")


def _by_bytes(axes: Any, points: Sequence[Mapping[str, Any]], ceilings: Mapping[str, Any]) -> None:
    sizes = [one["roofline"]["bytes"] / 1e6 for one in points]
    span = [min(sizes) / 4, max(sizes) * 4]
    axes.plot(span, [ceilings["copy_gbps"]] * 2, color="0.4", label="copy bandwidth, measured")
    for number, one in enumerate(points):
        marker = _MARKERS[number % len(_MARKERS)]
        size, rate = one["roofline"]["bytes"] / 1e6, one["roofline"]["gbps"]
        axes.plot([size], [rate], marker, color=f"C{number % 10}", label=_label(one))
    axes.set_xlabel("fewest bytes the op moves, MB")
    axes.set_ylabel("GB/s")


def _label(one: Mapping[str, Any]) -> str:
    share = one["roofline"]["fraction"]
    return f"{one['impl']}, {words.percent(share)} of the roof" if share else str(one["impl"])
