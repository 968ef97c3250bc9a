"""A device as a table, the database as a list, measured rates with doubts about them. Reads plain data."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kernellab.gpumodel.hierarchy import Row
from kernellab.machine.chips import Chip
from kernellab.machine.description import CpuJson
from kernellab.machine.gpus import Gpu
from kernellab.record.schema import GpuJson
from kernellab.reporting.text import numbers as words
from kernellab.timing.documents import Rate

_WIDE = 110  # columns of a terminal from which the last cell of a row is beside the others instead of below


def show_known(gpu: Gpu, asked: str, variants: Sequence[str], rows: Sequence[Row], out: Console) -> None:
    """A GPU of the database by the name `asked`, with its peak rates and its sources."""
    out.print(Text(f"{gpu.name}: {gpu.sms} SMs, {gpu.chip.generation} ({gpu.chip.arch})", style="bold"))
    if variants:
        out.print(Text(f"{asked} means the common variant; others: {', '.join(variants)}", style="dim"))
    _show_rows(rows, out)
    rates = {dtype: gpu.tensor_tflops(dtype) for dtype in gpu.chip.tensor_per_clock}
    tensor = ", ".join(f"{dtype} {words.digits(rate)}" for dtype, rate in rates.items() if rate is not None)
    power = f", {gpu.tdp_w} W" if gpu.tdp_w else ""
    lines = [
        f"Peak rates at {gpu.boost_mhz} MHz{power}: fp32 {words.digits(gpu.fp32_tflops)} TFLOP/s; "
        f"tensor cores, dense, accumulating in fp32: {tensor}.",
    ]
    if gpu.note:
        lines.append(gpu.note)
    for line in lines:
        out.print(Text(line))
    for source in gpu.sources:
        line = f"Source: {source.title} {source.url}".rstrip()
        out.print(Text(line), soft_wrap=True)  # an address must not be broken


def show_present(gpu: GpuJson, chip: Chip, rows: Sequence[Row], out: Console) -> None:
    out.print(Text(f"{gpu['name']}: {gpu['sms']} SMs, {chip.generation} ({chip.arch})", style="bold"))
    _show_rows(rows, out)
    out.print(Text("klab device --measure measures its bandwidths and matmul rates."))


def show_cpu(cpu: CpuJson, rows: Sequence[Row], out: Console) -> None:
    memory = f"{cpu['memory_bytes'] / 2**30:.0f} GiB"
    out.print(Text(f"{cpu['name']}: {cpu['cores']} cores, {memory}; no GPU here", style="bold"))
    _show_rows(rows, out)
    hint = "klab device --gpu a100 shows a GPU, --list the database; klab device --measure measures this CPU."
    out.print(Text(hint))


def _show_rows(rows: Sequence[Row], out: Console) -> None:
    out.print()
    wide = out.width >= _WIDE
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    table.add_column("part", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("scope")
    table.add_column("here")
    if wide:
        table.add_column("what matters")
    for row in rows:
        table.add_row(row.name, row.kind, row.scope, row.capacity, *([row.matters] if wide else []))
    out.print(table)
    out.print()
    if not wide:
        for row in rows:
            out.print(Text.assemble((f"{row.name}: ", "dim"), row.matters))
        out.print()


def show_list(gpus: Sequence[Gpu], out: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    table.add_column("GPU", no_wrap=True)
    table.add_column("arch", no_wrap=True)
    for title in ("SMs", "MHz", "memory", "GB/s", "L2 MB", "fp32", "W"):
        table.add_column(title, justify="right", no_wrap=True)
    for gpu in gpus:
        l2 = "" if gpu.l2_bytes is None else f"{gpu.l2_bytes / 2**20:g}"
        memory = f"{gpu.memory_gb:g} GB"
        numbers = (gpu.sms, gpu.boost_mhz, memory, f"{gpu.pin_gbps:.0f}", l2)
        table.add_row(gpu.name, gpu.arch, *map(str, numbers), words.digits(gpu.fp32_tflops), str(gpu.tdp_w or ""))
    out.print(table)
    out.print()
    out.print(Text(f"{len(gpus)} GPUs; fp32 in TFLOP/s. klab device --gpu NAME shows one, with its sources."))


def show_measured(
    name: str, rates: Sequence[Rate], clock_mhz: Sequence[float] | None, doubts: Sequence[str], out: Console
) -> None:
    out.print(Text(f"{name}, measured{_clock(clock_mhz)}", style="bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, show_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim")
    for row in rates:
        if row["value"] is None:
            table.add_row(row["name"], "–", row["how"])
        else:
            table.add_row(row["name"], f"{words.digits(row['value'])} {row['unit']}", row["how"])
    out.print(Padding(table, (0, 0, 0, 1), expand=False))
    for doubt in doubts:
        out.print(Text(f" not to be trusted: {doubt}", style="yellow"))
    out.print()


def _clock(clock_mhz: Sequence[float] | None) -> str:
    if clock_mhz is None:
        return " (the clock cannot be read here)"
    low, high = (f"{value:.0f}" for value in clock_mhz)
    return f" at {low} MHz" if low == high else f" at {low}–{high} MHz"
