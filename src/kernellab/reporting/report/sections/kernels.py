"""The kernels: those that a call launches, as the profiler saw them, and what their machine code says."""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.activity.documents import KernelLaunch
from kernellab.declaration.documents import CaseJson
from kernellab.record.batteries import short_kernel_name
from kernellab.record.derived import DerivedRecord, DerivedResult
from kernellab.reporting.report.parts.section import Run, Section
from kernellab.reporting.report.parts.table import Cell, Column, Table, from_terminal
from kernellab.reporting.terminal.inspection import InspectedKernel, build_table, list_kernels
from kernellab.reporting.text import numbers

_MOST_REMARKS = 100
_COLUMNS = (
    Column("impl", filter="impl"),
    Column("op", filter="op"),
    Column("case", filter="case"),
    Column("kernel"),
    Column("time", numeric=True),
    Column("share", numeric=True),
    Column("grid", numeric=True),
    Column("block", numeric=True),
    Column("registers", numeric=True),
    Column("shared", numeric=True),
    Column("occupancy", numeric=True),
)


def section(run: Run) -> Section | None:
    rows = [row for result in run.record["results"] for row in _launches(result)]
    facts = _facts(run.record)
    if not rows and not facts:
        return None
    caption = "The kernels of one call of each implementation, as the profiler saw them"
    launches = Table(caption, _COLUMNS, rows, sortable=True).without_empty_columns() if rows else None
    return Section("kernels", "Kernels", "kernels.html", {"launches": launches, "facts": facts})


def _launches(result: DerivedResult) -> list[list[Cell]]:
    kernels = result["kernels"] or []
    total = sum(kernel["us"] for kernel in kernels)
    head = [Cell(result["impl"], "strong"), Cell(result["op"]), Cell(numbers.case_label(result["case"]))]
    return [[*head, *_launch(kernel, total)] for kernel in kernels]


def _launch(kernel: KernelLaunch, total_us: float) -> list[Cell]:
    registers, shared, occupancy = (kernel.get(k) for k in ("registers", "shared_bytes", "occupancy_percent"))
    short = short_kernel_name(kernel["name"])
    share = kernel["us"] / total_us if total_us > 0 else None
    return [
        Cell(short, whole=kernel["name"] if short != kernel["name"] else ""),
        Cell(numbers.duration(kernel["us"]), sort=kernel["us"]),
        Cell("" if share is None else numbers.percent(share), sort=share),
        _dims(kernel.get("grid")),
        _dims(kernel.get("block")),
        Cell("" if registers is None else str(registers), sort=_number(registers)),
        Cell(numbers.memory(shared) if isinstance(shared, int) and shared else "", sort=_number(shared)),
        Cell(f"{occupancy:.0f} %" if isinstance(occupancy, int | float) else "", sort=_number(occupancy)),
    ]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _dims(dims: Sequence[int] | None) -> Cell:
    """`128×1×1` as `128`: trailing ones say nothing."""
    if not dims:
        return Cell("")
    shown = list(dims)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    count = 1.0
    for size in shown:
        count *= min(abs(size), 1 << 40)
    return Cell("×".join(map(str, shown)), sort=count)


def _facts(record: DerivedRecord) -> list[dict[str, object]]:
    """The facts of each compiled kernel, by op, case and pass, with remarks on its code."""
    groups: dict[str, list[InspectedKernel]] = {}
    for kernel in list_kernels(record):
        if "registers" in kernel:
            groups.setdefault(_title(kernel["op"], kernel["case"], kernel["pass"]), []).append(kernel)
    facts: list[dict[str, object]] = []
    for title, kernels in groups.items():
        remarks = {
            f"{kernel['impl']} {kernel['name']}: {remark}": None
            for kernel in kernels
            for remark in [*([kernel["refusal"]] if kernel["refusal"] else []), *kernel["remarks"]]
        }
        caption = f"{title}: facts of the machine code"
        facts.append({"table": from_terminal(build_table(kernels), caption), "lines": list(remarks)[:_MOST_REMARKS]})
    return facts


def _title(op: str, case: CaseJson | None, pass_name: str) -> str:
    return " · ".join(filter(None, [op, numbers.case_label(case) if case else "", pass_name]))
