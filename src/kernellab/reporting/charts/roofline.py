"""The roofline drawn with matplotlib: log-log axes, the measured limits, one point per implementation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.gpumodel.roofline import Roofline, matmul_limits
from kernellab.gpumodel.subject import Subject
from kernellab.machine.description import Ceilings
from kernellab.record.derived import DerivedRecord
from kernellab.reporting.charts.provenance import provenance
from kernellab.reporting.text import numbers as words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "os^vDPX*<>"
Point = tuple[Subject, Roofline]


def plot(subjects: Sequence[Subject], record: DerivedRecord, path: Path) -> None:
    """Ops without matmuls have no arithmetic intensity: they are drawn by their bytes, against the bandwidth alone."""
    try:
        from matplotlib.figure import Figure

        from kernellab.reporting.charts.plot import save
    except ImportError:
        raise UserError("--plot needs matplotlib: pip install 'kernellab[plots]'") from None
    ceilings = record["machine"].get("ceilings")
    points = [(subject, subject.limit) for subject in subjects if subject.limit and subject.limit.gbps]
    if not ceilings or not points:
        raise UserError("--plot: there is no roofline to draw, as no implementation was timed on a measured machine")
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    with_matmul = [point for point in points if point[1].intensity]
    if with_matmul:
        _draw_by_intensity(axes, with_matmul, ceilings)
    else:
        _draw_by_bytes(axes, points, ceilings)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)
    first = points[0][0]
    axes.set_title(f"{first.op} {words.case_label(first.case)}", fontsize=11)
    figure.supxlabel(provenance(record), fontsize=6, color="0.35", wrap=True)
    save(figure, path)


def _draw_by_intensity(axes: Axes, points: Sequence[Point], ceilings: Ceilings) -> None:
    gbps = ceilings["copy_gbps"]
    for dtype in dict.fromkeys(subject.dtype for subject, _ in points):
        for name, rate in matmul_limits(ceilings, dtype).items():
            ridge = rate * 1e3 / gbps
            xs = [ridge / 1000, ridge, ridge * 100]
            axes.plot(xs, [min(x * gbps / 1e3, rate) for x in xs], color="0.4", label=name)
    for index, (subject, limit) in enumerate(points):
        _draw_point(axes, index, limit.intensity or 0.0, limit.tflops or 0.0, subject)
    axes.set_xlabel("operations per byte")
    axes.set_ylabel("TFLOP/s")


def _draw_by_bytes(axes: Axes, points: Sequence[Point], ceilings: Ceilings) -> None:
    megabytes = [limit.bytes / 1e6 for _, limit in points]
    span = [min(megabytes) / 4, max(megabytes) * 4]
    axes.plot(span, [ceilings["copy_gbps"]] * 2, color="0.4", label="copy bandwidth, measured")
    for index, (subject, limit) in enumerate(points):
        _draw_point(axes, index, limit.bytes / 1e6, limit.gbps or 0.0, subject)
    axes.set_xlabel("fewest bytes the op moves, MB")
    axes.set_ylabel("GB/s")


def _draw_point(axes: Axes, index: int, x: float, y: float, subject: Subject) -> None:
    share = subject.limit.fraction if subject.limit else None
    label = f"{subject.impl}, {words.percent(share)} of the limit" if share else subject.impl
    axes.plot([x], [y], _MARKERS[index % len(_MARKERS)], color=f"C{index % 10}", label=label)
