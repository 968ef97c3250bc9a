"""The saw-tooth of efficiency over grids, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from kernellab.reporting.charts import plot


def save(curves: Mapping[str, Mapping[int, float]], axis: str, path: Path) -> None:
    """One curve per GPU, in percent over `axis`."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for name, curve in curves.items():
        axes.plot(list(curve), list(curve.values()), linewidth=1.2, label=name)
    axes.set_ylim(0, 105)
    axes.set_xlabel(axis)
    axes.set_ylabel("efficiency, %")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.supxlabel(
        "Predicted, unless labelled measured. Blocks of equal work that keep their SM busy.",
        fontsize=7,
        color="0.35",
    )
    plot.save(figure, path)
