"""The distribution of samples of each implementation at each case, with marks where a time is not trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernellab.base.json import JsonObject, JsonValue
from kernellab.record import verdict
from kernellab.record.derived import DerivedResult
from kernellab.record.schema import TimeSeries
from kernellab.reporting.report.parts.figure import Figure, Mark, drawn_name, figure, marks
from kernellab.reporting.report.parts.section import Run, Section
from kernellab.reporting.report.parts.table import Cell, Column, Table
from kernellab.reporting.sentences import times
from kernellab.reporting.sentences.times import TimedResult
from kernellab.reporting.text import numbers
from kernellab.stats.intervals import quantile

MOST_SAMPLES = 300  # of one implementation in a figure: evenly chosen from the sorted ones
_MOST_FIGURES, _MOST_ROWS = 200, 40
_ROW, _REST = 44, 100  # pixels
_COLUMNS = (
    Column("impl"),
    Column("samples", numeric=True),
    Column("rounds", numeric=True),
    Column("lowest", numeric=True),
    Column("median", numeric=True),
    Column("99 % interval", numeric=True),
    Column("highest", numeric=True),
    Column("trust"),
)


def section(run: Run) -> Section | None:
    mark_of = marks(run.record)
    charts: list[dict[str, object]] = []
    figures: dict[str, JsonObject] = {}
    left_out = 0
    for group in verdict.groups(run.record["results"]):
        for pass_name in group[0]["derived"]["passes"]:
            rows = _rows(group, pass_name)
            if rows and len(figures) < _MOST_FIGURES:
                name = f"{run.prefix}samples-{len(figures)}"
                doubts = [*times.trust_notes(rows), *times.comparison_notes(rows)]
                charts.append({"figure": _place(name, rows, pass_name), "lines": doubts})
                figures[name] = _figure(rows, pass_name, mark_of)
            elif rows:
                left_out += 1
    if not charts:
        return None
    return Section("samples", "Samples", "samples.html", {"charts": charts, "left_out": left_out}, figures)


def _rows(group: Sequence[DerivedResult], pass_name: str) -> list[TimedResult]:
    """The results that were timed in a pass, the fastest first."""
    rows = [row for r in group if (row := times.timed(r, r["derived"]["passes"][pass_name])) is not None]
    return sorted(rows, key=lambda row: row.time["median_us"])


def _series(row: TimedResult, pass_name: str) -> TimeSeries | None:
    time = row.time
    return verdict.entry_of(row.result, {"pass": pass_name, "timer": time["timer"], "cache": time["cache"]})


def _place(name: str, rows: Sequence[TimedResult], pass_name: str) -> Figure:
    first = rows[0].result
    title = f"{first['op']} {numbers.case_label(first['case'])} · {pass_name}"
    impls = ", ".join(row.impl for row in rows[:20])
    description = f"{title}: the samples of {impls}, each in per cent from its median"
    table = Table(f"{title}: samples by implementation", _COLUMNS, [_cells(row, pass_name) for row in rows])
    return Figure(name, title, description, table, height=_height(rows))


def _height(rows: Sequence[TimedResult]) -> int:
    return _ROW * min(len(rows), _MOST_ROWS) + _REST


def _cells(row: TimedResult, pass_name: str) -> list[Cell]:
    entry, time = _series(row, pass_name), row.time
    samples = entry["samples_us"] if entry else []
    trusted = row.trust["verdict"] == "trusted"
    return [
        Cell(row.impl),
        Cell(str(len(samples))),
        Cell(str(time["rounds"])),
        Cell(numbers.duration(min(samples, default=0.0))),
        Cell(numbers.duration(time["median_us"])),
        Cell(f"{numbers.duration(time['low_us'])} – {numbers.duration(time['high_us'])}"),
        Cell(numbers.duration(max(samples, default=0.0))),
        Cell(row.trust["verdict"], "" if trusted else "warn"),
    ]


def _figure(rows: Sequence[TimedResult], pass_name: str, mark_of: Mapping[str, Mark]) -> JsonObject:
    """A box with its samples for each implementation, the fastest on top, relative to the median of each."""
    shown = [(row, _deviations(row, pass_name)) for row in rows[:_MOST_ROWS]]
    ends = [quantile(values, share) for _, values in shown if values for share in (0.02, 0.98)]
    margin = 0.15 * (max(ends, default=0.0) - min(ends, default=0.0)) + 0.1
    # A few outliers would press everything else into one line. The numbers name the highest and the lowest sample.
    span: list[JsonValue] = [min(ends, default=0.0) - margin, max(ends, default=0.0) + margin]
    traces = [_trace(row, values, mark_of[row.impl]) for row, values in shown]
    x: JsonObject = {"title": {"text": "from the median, %"}, "range": span, "zeroline": True}
    return figure(traces, x, {"autorange": "reversed", "type": "category"}, height=_height(rows), showlegend=False)


def _deviations(row: TimedResult, pass_name: str) -> list[float]:
    """The samples in per cent from their median, sorted."""
    entry, median_us = _series(row, pass_name), row.time["median_us"]
    values = entry["samples_us"] if entry and median_us > 0 else []
    return sorted(100 * (value / median_us - 1) for value in values)


def _trace(row: TimedResult, deviations: Sequence[float], mark: Mark) -> JsonObject:
    doubt = "" if row.trust["verdict"] == "trusted" else " ?"
    return {
        "type": "box",
        "orientation": "h",
        "name": f"{drawn_name(row.impl)}{doubt}<br>{numbers.duration(row.time['median_us'])}",
        "x": _chosen(deviations),
        "boxpoints": "all",
        "jitter": 0.6,
        "pointpos": 0,
        "marker": {"color": mark.colour, "size": 3, "opacity": 0.55},
        "line": {"color": mark.colour, "width": 1.5},
        "fillcolor": "rgba(0,0,0,0)",
        "hoverinfo": "x",
    }


def _chosen(values: Sequence[float]) -> list[JsonValue]:
    """At most `MOST_SAMPLES` of sorted values, evenly chosen, the first and the last among them."""
    if len(values) > MOST_SAMPLES:
        step = (len(values) - 1) / (MOST_SAMPLES - 1)
        values = [values[round(number * step)] for number in range(MOST_SAMPLES)]
    return [float(f"{value:.4g}") for value in values]
