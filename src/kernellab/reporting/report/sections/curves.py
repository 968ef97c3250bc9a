"""Curves over sweeps: the rate of each implementation by size, with the measured limit."""

from __future__ import annotations

from collections.abc import Mapping

from kernellab.base.json import JsonObject, JsonValue
from kernellab.record.derived import DerivedRecord
from kernellab.reporting.charts import series
from kernellab.reporting.charts import table as sweep_table
from kernellab.reporting.charts.series import Sweep
from kernellab.reporting.report.parts.figure import LIMIT_COLOUR, Figure, Mark, drawn_name, figure, marks
from kernellab.reporting.report.parts.section import Run, Section
from kernellab.reporting.report.parts.table import from_terminal, lines
from kernellab.reporting.text import numbers

_MOST_SWEEPS = 60
_MOST_TICKS = 12


def section(run: Run) -> Section | None:
    record = run.record
    sweeps = [sweep for sweep in series.find(record) if sweep.timed][:_MOST_SWEEPS]
    if not sweeps:
        return None
    mark_of = marks(record)
    charts, figures = [], {}
    for number, sweep in enumerate(sweeps):
        name = f"{run.prefix}curve-{number}"
        charts.append(
            {
                "figure": _place(sweep, name),
                "lines": lines(sweep_table.remarks(sweep, timing=True)),
                "growth": sweep_table.growth(sweep),
            }
        )
        figures[name] = _figure(sweep, record, mark_of)
    return Section("curves", "Curves", "curves.html", {"charts": charts}, figures)


def _place(sweep: Sweep, name: str) -> Figure:
    title = f"{sweep.op} {sweep.label}"
    bands = "bars from the 0.2 to the 0.8 quantile of the samples"
    description = f"{title}: {_quantity(sweep)} by {sweep.dim} of {', '.join(sweep.impls[:20])}; {bands}"
    caption = f"{title}, {sweep.unit}; “?” marks times that are not trusted"
    return Figure(name, title, description, from_terminal(sweep_table.table(sweep), caption))


def _quantity(sweep: Sweep) -> str:
    return "time, µs" if sweep.unit == "µs" else sweep.unit


def _figure(sweep: Sweep, record: DerivedRecord, mark_of: Mapping[str, Mark]) -> JsonObject:
    traces = [_trace(sweep, impl, mark_of[impl]) for impl in sweep.impls if sweep.curve(impl)]
    limit = series.ceiling(sweep, record)
    if limit is not None:
        name, rate = limit
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"{name}, measured",
                "x": [sweep.sizes[0], sweep.sizes[-1]],
                "y": [rate, rate],
                "line": {"dash": "dash", "width": 1.5, "color": LIMIT_COLOUR},
                "hoverinfo": "name+y",
            }
        )
    x: JsonObject = {"title": {"text": drawn_name(" = ".join([sweep.dim, *sweep.together]))}}
    if sweep.geometric:
        step = -(-len(sweep.sizes) // _MOST_TICKS)
        ticks: list[JsonValue] = [*sweep.sizes[::step]]
        x |= {"type": "log", "tickvals": ticks, "ticktext": [str(size) for size in sweep.sizes[::step]]}
    return figure(traces, x, {"title": {"text": _quantity(sweep)}, "rangemode": "tozero"})


def _trace(sweep: Sweep, impl: str, mark: Mark) -> JsonObject:
    """One curve. A size without a point interrupts the line."""
    curve = sweep.curve(impl)
    points = [curve.get(size) for size in sweep.sizes]
    gaps = series.describe_gaps(sweep, impl)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": drawn_name(f"{impl} ({gaps})" if gaps else impl),
        "x": [*sweep.sizes],
        "y": [point.value if point else None for point in points],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [point.high - point.value if point else None for point in points],
            "arrayminus": [point.value - point.low if point else None for point in points],
            "thickness": 1.2,
            "width": 3,
        },
        "marker": {
            "color": mark.colour,
            "symbol": [mark.of(point.trust) if point else mark.symbol for point in points],
            "size": 7,
        },
        "line": {"color": mark.colour, "width": 1.8},
        "text": [_hover(sweep, impl, size) for size in sweep.sizes],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _hover(sweep: Sweep, impl: str, size: int) -> str:
    """What is shown where the pointer rests on a point."""
    point = sweep.curve(impl).get(size)
    if point is None:
        return ""
    time = point.time
    lines = [
        f"{drawn_name(impl)} at {drawn_name(sweep.dim)}={size}",
        f"{numbers.duration(time['median_us'])} {numbers.spread(time['median_us'], time['low_us'], time['high_us'])}",
        *([f"{numbers.digits(point.value)} {sweep.unit}"] if sweep.unit != "µs" else []),
        *([f"{numbers.percent(point.share)} of the limit"] if point.share else []),
        point.trust["verdict"],
    ]
    return "<br>".join(lines)
