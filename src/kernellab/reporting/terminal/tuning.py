"""What `klab tune` will measure, and what it decided, as tables."""

from __future__ import annotations

from rich.console import Console

from kernellab.reporting.text import numbers
from kernellab.reporting.text.table import Column, Row, Table
from kernellab.tuning.regions import Cell
from kernellab.tuning.tuner import Plan, Tuned
from kernellab.tuning.winners import PASSES, Pair

_COLUMNS = (
    Column("columns"),
    Column("elements"),
    Column("dtype", align="left"),
    Column("shipped", align="left"),
    Column("chosen", align="left"),
    *(Column(f"{name} over torch") for name in PASSES),
    Column("why", align="left", wrap_to=30),
)


def show_plan(plan: Plan, out: Console) -> None:
    request = plan.settings.request
    sizes = numbers.count(len(request["shapes"]) or 1, "size")
    options = "".join(f", {name}={','.join(values)}" for name, values in request["options"].items())
    out.print(
        f"{plan.op.name} on {plan.architecture}: {', '.join(plan.candidates)} at {sizes} in {', '.join(plan.dtypes)}"
        f"{options}, forward and backward; about {max(1, round(plan.minutes))} min"
    )


def show_tuned(tuned: Tuned, out: Console, run: str) -> None:
    out.print(_summary(tuned))
    table = Table(_COLUMNS, [Row(_cells(cell)) for cell in tuned.cells])
    for line in table.lines(out.width):
        out.print(line)
    for impl, reason in tuned.refused.items():
        out.print(f"{tuned.plan.op.name} {impl} takes no part: {reason}", style="red")
    doubts = tuned.doubts
    if doubts:
        words = ", ".join(f"{name} {count}" for name, count in doubts.items())
        out.print(f"times that cannot be trusted: {words}. A quiet machine gives more certain choices", style="yellow")
    out.print(f"record: {run}", style="dim")


def _summary(tuned: Tuned) -> str:
    op, switched = tuned.plan.op.name, sum(cell.decision.switches for cell in tuned.cells)
    if not tuned.is_measured:
        return f"{op}: nothing could be measured"
    if not switched:
        return f"{op}: the shipped choices stay, at {numbers.count(len(tuned.cells), 'measured case')}"
    verified = f"; verified: {', '.join(tuned.verified)}" if tuned.verified else ""
    return (
        f"{op}: another choice at {switched} of {numbers.count(len(tuned.cells), 'measured case')}, "
        f"in {numbers.count(len(tuned.rules), 'rule')}{verified}"
    )


def _cells(cell: Cell) -> list[str]:
    decision = cell.decision
    return [
        "any" if cell.columns is None else str(cell.columns),
        str(cell.elements),
        " ".join([cell.dtype, *(f"{name}={value}" for name, value in cell.options)]),
        _words(decision.shipped),
        _words(decision.chosen),
        *(numbers.times(decision.over[name]) if name in decision.over else "–" for name in PASSES),
        decision.reason,
    ]


def _words(pair: Pair) -> str:
    return pair.forward if pair.forward == pair.backward else f"{pair.forward}, {pair.backward}"
