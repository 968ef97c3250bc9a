"""Waves: how the grid of each launch fills the GPU, and the saw-tooth of predicted efficiency over grids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kernellab.base.json import JsonObject
from kernellab.gpumodel.occupancy import describe_limiters
from kernellab.gpumodel.wave_curve import wave_curve
from kernellab.reporting.html.parts import label
from kernellab.reporting.report.parts.figure import LIMIT_COLOUR, Figure, Mark, drawn_name, figure, log_axis, marks
from kernellab.reporting.report.parts.launches import Launch, read_launches
from kernellab.reporting.report.parts.section import Run, Section
from kernellab.reporting.report.parts.table import Cell, Column, Table
from kernellab.reporting.sentences.waves import describe_fill
from kernellab.reporting.text import numbers

_MOST_LAUNCHES = 500
_MOST_FIGURES = 6
_POOR = 0.9  # an efficiency below is worth a sentence
_MOST_SENTENCES = 6
_NAME_CHARACTERS = 60
_BEYOND = 2  # the axis reaches this many times the largest grid, and what the GPU holds at once
_BEFORE = 8  # and down to this part of the smallest grid, or of the SMs
_COLUMNS = (
    Column("op", filter="op"),
    Column("case", filter="case"),
    Column("impl", filter="impl"),
    Column("kernel"),
    Column("blocks", numeric=True),
    Column("threads", numeric=True),
    Column("on an SM", numeric=True),
    Column("waves", numeric=True),
    Column("in the last", numeric=True),
    Column("efficient if compute-bound", numeric=True),
    Column("if latency-bound", numeric=True),
)


def section(run: Run) -> Section | None:
    launches = read_launches(run.record)[:_MOST_LAUNCHES]
    if not launches:
        return None
    mark_of = marks(run.record)
    places, figures = [], {}
    for number, alike in enumerate(_by_shape(launches)[:_MOST_FIGURES]):
        name = f"{run.prefix}waves-{number}"
        figures[name] = _draw(alike, mark_of)
        places.append(Figure(name, _title(alike[0]), _description(alike)))
    values = {
        "gpus": list(dict.fromkeys(f"{launch.gpu.name} ({launch.gpu.sms} SMs)" for launch in launches)),
        "sentences": _sentences(launches),
        "table": Table("How each launch fills the GPU", _COLUMNS, [_row(launch) for launch in launches], sortable=True),
        "figures": places,
    }
    return Section("waves", "Waves", "waves.html", values, figures)


def _row(launch: Launch) -> list[Cell]:
    compute, latency = launch.compute, launch.latency
    clusters = f" by {compute.cluster}" if compute.cluster > 1 else ""
    last = compute.tail_blocks or compute.usable_sms
    return [
        Cell(launch.op),
        Cell(launch.case),
        Cell(launch.impl),
        Cell(_shorten(launch.kernel)),
        Cell(f"{compute.blocks}{clusters}", sort=float(compute.blocks)),
        Cell(str(launch.threads), sort=float(launch.threads)),
        Cell(str(compute.blocks_per_sm), sort=float(compute.blocks_per_sm)),
        Cell(str(compute.rounds), sort=float(compute.rounds)),
        Cell(f"{last} of {compute.usable_sms}", sort=last / compute.usable_sms),
        *(
            Cell(numbers.percent(w.efficiency), "warn" if w.efficiency < _POOR else "", w.efficiency)
            for w in (compute, latency)
        ),
    ]


def _sentences(launches: Iterable[Launch]) -> list[str]:
    """The launches that lose most by their grids, each once."""
    poor = sorted((launch for launch in launches if launch.compute.efficiency < _POOR), key=_efficiency)
    told = (f"{launch.impl} {_shorten(launch.kernel)}: {describe_fill(launch.compute)}" for launch in poor)
    return list(dict.fromkeys(told))[:_MOST_SENTENCES]


def _efficiency(launch: Launch) -> float:
    return launch.compute.efficiency


def _shorten(kernel: str) -> str:
    """The beginning of a kernel's name."""
    return label(kernel.removeprefix("void "), _NAME_CHARACTERS)


# Figures -----------------------------------------------------------------------------------------------


def _by_shape(launches: Iterable[Launch]) -> list[list[Launch]]:
    """Launches with one curve together: their blocks fit on an SM equally. Those with most launches come first."""
    groups: dict[tuple[object, ...], list[Launch]] = {}
    for launch in launches:
        fits = launch.occupancy
        shape = (launch.gpu, fits.blocks_per_sm, fits.warps_per_block, launch.compute.cluster)
        groups.setdefault(shape, []).append(launch)
    return sorted(groups.values(), key=len, reverse=True)


def _title(launch: Launch) -> str:
    fits, cluster = launch.occupancy, launch.compute.cluster
    clusters = f", in clusters of {cluster}" if cluster > 1 else ""
    blocks, warps = numbers.count(fits.blocks_per_sm, "block"), numbers.count(fits.warps_per_block, "warp")
    limits = describe_limiters(fits.limiters)
    return f"{launch.gpu.name}: an SM holds {blocks} of {warps}{clusters}, limited by {limits}"


def _description(launches: Sequence[Launch]) -> str:
    points = ", ".join(
        f"{launch.impl} with {launch.compute.blocks} blocks {numbers.percent(launch.compute.efficiency)}"
        for launch in launches[:10]
    )
    return f"Predicted efficiency over the number of blocks: {points}"


def _draw(launches: Sequence[Launch], mark_of: Mapping[str, Mark]) -> JsonObject:
    first = launches[0]
    usable, grids = first.compute.usable_sms, [launch.compute.blocks for launch in launches]
    smallest = max(min(usable, *grids) // _BEFORE, first.compute.cluster)
    largest = _BEYOND * max(usable * first.occupancy.blocks_per_sm, *grids)
    curves = [
        _curve(first, largest, "latency", "if latency-bound", "dot"),
        _curve(first, largest, "compute", "if compute-bound", "solid"),
    ]
    by_impl: dict[str, list[Launch]] = {}
    for launch in launches:
        by_impl.setdefault(launch.impl, []).append(launch)
    points = [_points(impl, chosen, mark_of[impl]) for impl, chosen in by_impl.items()]
    x_axis: JsonObject = {"title": {"text": "blocks in the grid"}, **log_axis([smallest, largest])}
    return figure([*curves, *points], x_axis, {"title": {"text": "predicted efficiency, %"}, "range": [0, 105]})


def _curve(launch: Launch, largest: int, bound: str, name: str, dash: str) -> JsonObject:
    cluster, gpu = launch.compute.cluster, launch.gpu
    curve = wave_curve(largest, gpu.sms, launch.occupancy, gpu.chip, bound=bound, cluster=cluster)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [point.blocks for point in curve],
        "y": [round(100 * point.efficiency, 2) for point in curve],
        "line": {"width": 1.2, "color": LIMIT_COLOUR, "dash": dash},
        "hoverinfo": "x+y+name",
    }


def _points(impl: str, launches: Sequence[Launch], mark: Mark) -> JsonObject:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": drawn_name(impl),
        "x": [launch.compute.blocks for launch in launches],
        "y": [round(100 * launch.compute.efficiency, 2) for launch in launches],
        "marker": {"color": mark.colour, "symbol": mark.symbol, "size": 10},
        "text": [
            f"{drawn_name(launch.impl)} {drawn_name(launch.kernel)}<br>{drawn_name(launch.case)}<br>"
            f"{describe_fill(launch.compute)}"
            for launch in launches
        ],
        "hovertemplate": "%{text}<extra></extra>",
    }
