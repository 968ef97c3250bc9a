"""The roofline with every result that was timed: the rates attained, below the measured limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernellab.base.json import JsonObject
from kernellab.gpumodel.roofline import matmul_limits
from kernellab.machine.description import Ceilings
from kernellab.record.derived import DerivedResult, LimitJson, TrustVerdict
from kernellab.record.statuses import RIGHT
from kernellab.reporting.report.parts.figure import (
    LIMIT_COLOUR,
    Figure,
    Mark,
    drawn_name,
    figure,
    log_axis,
    marks,
)
from kernellab.reporting.report.parts.section import Run, Section
from kernellab.reporting.report.parts.table import Cell, Column, Table
from kernellab.reporting.text import numbers

_TITLES = {"bytes": "Memory: rate by the bytes that must move", "intensity": "Matmul: rate by intensity"}
_COLUMNS = (
    Column("op"),
    Column("case"),
    Column("pass"),
    Column("impl"),
    Column("operations per byte", numeric=True),
    Column("rate", numeric=True),
    Column("of the limit", numeric=True),
    Column("bound by"),
)


@dataclass(frozen=True)
class _Point:
    """A result in one pass, by its bytes or its intensity, at the rate it attained."""

    result: DerivedResult
    pass_name: str
    limit: LimitJson

    @property
    def rate(self) -> float:
        return (self.limit["tflops"] if self.limit["intensity"] else self.limit["gbps"]) or 0.0

    @property
    def unit(self) -> str:
        return "TFLOP/s" if self.limit["intensity"] else "GB/s"

    @property
    def x(self) -> float:
        return self.limit["intensity"] or self.limit["bytes"] / 1e6

    @property
    def trust(self) -> TrustVerdict | None:
        return self.result["derived"]["passes"][self.pass_name]["trust"]

    @property
    def place(self) -> str:
        return f"{self.result['op']} {numbers.case_label(self.result['case'])} {self.pass_name}"


def section(run: Run) -> Section | None:
    record = run.record
    ceilings = record["machine"].get("ceilings")
    points = [point for result in record["results"] for point in _points(result)]
    if not ceilings or not points:
        return None
    mark_of = marks(record)
    places, figures = [], {}
    for kind, title in (
        ("bytes", "Memory: rate by the bytes that must move"),
        ("intensity", "Matmul: rate by intensity"),
    ):
        chosen = [point for point in points if bool(point.limit["intensity"]) == (kind == "intensity")]
        if not chosen:
            continue
        name = f"{run.prefix}roofline-{kind}"
        draw = _by_intensity if kind == "intensity" else _by_bytes
        figures[name] = draw(chosen, ceilings, mark_of)
        description = f"{title}: {numbers.count(len(chosen), 'result')} of {', '.join(list(mark_of)[:20])}"
        places.append(Figure(name, title, description, _table(chosen), height=420))
    return Section("roofline", "Roofline", "roofline.html", {"figures": places}, figures)


def _points(result: DerivedResult) -> list[_Point]:
    if result["derived"]["at_case"]["status"] not in RIGHT:
        return []
    limits = [(name, verdict["limit"]) for name, verdict in result["derived"]["passes"].items()]
    points = [_Point(result, name, limit) for name, limit in limits if limit and limit["gbps"]]
    return [point for point in points if point.rate > 0 and point.x > 0]


def _table(points: Sequence[_Point]) -> Table:
    rows = []
    for point in sorted(points, key=lambda point: -(point.limit["fraction"] or 0.0)):
        limit, case = point.limit, point.result["case"]
        intensity = limit["intensity"]
        rows.append(
            [
                Cell(point.result["op"]),
                Cell(numbers.case_label(case)),
                Cell(point.pass_name),
                Cell(point.result["impl"]),
                Cell(numbers.digits(intensity) if intensity else ""),
                Cell(f"{numbers.digits(point.rate)} {point.unit}"),
                Cell(numbers.percent(limit["fraction"]) if limit["fraction"] else ""),
                Cell(limit["bound"] or ""),
            ]
        )
    return Table("Every result on the roofline, the closest to the limit first", _COLUMNS, rows).without_empty_columns()


def _by_bytes(points: Sequence[_Point], ceilings: Ceilings, mark_of: Mapping[str, Mark]) -> JsonObject:
    """Ops without matmuls have no intensity: they are drawn by their bytes, against the bandwidth."""
    xs = [point.x for point in points]
    limit = _limit_line("copy bandwidth, measured", [min(xs) / 2, max(xs) * 2], [ceilings["copy_gbps"]] * 2)
    rates = [*(point.rate for point in points), ceilings["copy_gbps"]]
    return figure(
        [limit, *_traces(points, mark_of)],
        {"title": {"text": "fewest bytes the pass moves, MB"}, **log_axis(xs)},
        {"title": {"text": "GB/s"}, **log_axis(rates)},
        height=420,
    )


def _by_intensity(points: Sequence[_Point], ceilings: Ceilings, mark_of: Mapping[str, Mark]) -> JsonObject:
    gbps, xs = ceilings["copy_gbps"], [point.x for point in points]
    roofs, rates = [], [point.rate for point in points]
    for dtype in dict.fromkeys(point.result["case"]["dtype"] for point in points):
        for name, rate in matmul_limits(ceilings, dtype).items():
            ridge = rate * 1e3 / gbps
            ends = [min(*xs, ridge) / 3, ridge, max(*xs, ridge) * 3]
            roofs.append(_limit_line(name, ends, [min(x * gbps / 1e3, rate) for x in ends]))
            rates.append(rate)
            xs = [*xs, ridge]
    return figure(
        [*roofs, *_traces(points, mark_of)],
        {"title": {"text": "operations per byte"}, **log_axis(xs)},
        {"title": {"text": "TFLOP/s"}, **log_axis(rates)},
        height=420,
    )


def _limit_line(name: str, xs: Sequence[float], ys: Sequence[float]) -> JsonObject:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": drawn_name(name),
        "x": [*xs],
        "y": [*ys],
        "line": {"dash": "dash", "width": 1.5, "color": LIMIT_COLOUR},
        "hoverinfo": "name",
    }


def _traces(points: Sequence[_Point], mark_of: Mapping[str, Mark]) -> list[JsonObject]:
    by_impl: dict[str, list[_Point]] = {}
    for point in points:
        by_impl.setdefault(point.result["impl"], []).append(point)
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": drawn_name(impl),
            "x": [point.x for point in chosen],
            "y": [point.rate for point in chosen],
            "marker": {
                "color": mark_of[impl].colour,
                "symbol": [mark_of[impl].of(point.trust) for point in chosen],
                "size": 9,
                "opacity": 0.85,
            },
            "text": [_hover(point) for point in chosen],
            "hovertemplate": "%{text}<extra></extra>",
        }
        for impl, chosen in by_impl.items()
    ]


def _hover(point: _Point) -> str:
    fraction = point.limit["fraction"]
    share = f", {numbers.percent(fraction)} of the limit" if fraction else ""
    rate = f"{numbers.digits(point.rate)} {point.unit}{share}"
    return f"{drawn_name(point.result['impl'])}<br>{drawn_name(point.place)}<br>{rate}"
