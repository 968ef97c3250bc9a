"""A device as a table, the database as a list, measured rates with doubts about them. Reads plain data."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from kernellab.gpumodel.hierarchy import Row as Part
from kernellab.machine.chips import Chip
from kernellab.machine.description import CpuJson
from kernellab.machine.gpus import Gpu
from kernellab.record.schema import GpuJson
from kernellab.reporting.text import numbers as words
from kernellab.reporting.text.table import Column, Row, Table, print_table
from kernellab.timing.documents import Rate

_WIDE = 110  # columns of a terminal from which the last cell of a row is beside the others instead of below


def show_named(gpu: Gpu, name: str, variants: Sequence[str], parts: Sequence[Part], out: Console) -> None:
    """A GPU of the database, with its peak rates and its sources. `name` is the name on the command line."""
    out.print(Text(f"{gpu.name}: {gpu.sms} SMs, {gpu.chip.generation} ({gpu.chip.arch})", style="bold"))
    if variants:
        out.print(Text(f"{name} means the common variant; others: {', '.join(variants)}", style="dim"))
    _show_parts(parts, out)
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


def show_present(gpu: GpuJson, chip: Chip, parts: Sequence[Part], out: Console) -> None:
    out.print(Text(f"{gpu['name']}: {gpu['sms']} SMs, {chip.generation} ({chip.arch})", style="bold"))
    _show_parts(parts, out)
    out.print(Text("klab device --measure measures its bandwidths and matmul rates."))


def show_cpu(cpu: CpuJson, parts: Sequence[Part], out: Console) -> None:
    memory = f"{cpu['memory_bytes'] / 2**30:.0f} GiB"
    out.print(Text(f"{cpu['name']}: {cpu['cores']} cores, {memory}; no GPU here", style="bold"))
    _show_parts(parts, out)
    hint = "klab device --gpu a100 shows a GPU, --list the database; klab device --measure measures this CPU."
    out.print(Text(hint))


def _show_parts(parts: Sequence[Part], out: Console) -> None:
    out.print()
    wide = out.width >= _WIDE
    texts = ["scope", "here", *(["what matters"] if wide else [])]
    columns = [Column("part", "left"), Column("", "left"), *(Column(title, "left", wrap_to=12) for title in texts)]
    rows = [Row([p.name, p.kind, p.scope, p.capacity, *([p.matters] if wide else [])]) for p in parts]
    print_table(Table(columns, rows, indent=0), out)
    out.print()
    if not wide:
        for part in parts:
            out.print(Text.assemble((f"{part.name}: ", "dim"), part.matters))
        out.print()


def show_list(gpus: Sequence[Gpu], out: Console) -> None:
    columns = [
        Column("GPU", "left"),
        Column("arch", "left"),
        Column("SMs"),
        Column("MHz", drop=1),
        Column("memory"),
        Column("GB/s"),
        Column("L2 MB", drop=3),
        Column("fp32"),
        Column("W", drop=2),
    ]
    rows = []
    for gpu in gpus:
        l2 = "" if gpu.l2_bytes is None else f"{gpu.l2_bytes / 2**20:g}"
        sizes = (str(gpu.sms), str(gpu.boost_mhz), f"{gpu.memory_gb:g} GB", f"{gpu.pin_gbps:.0f}", l2)
        rows.append(Row([gpu.name, gpu.arch, *sizes, words.digits(gpu.fp32_tflops), str(gpu.tdp_w or "")]))
    print_table(Table(columns, rows, indent=0), out)
    out.print()
    out.print(Text(f"{len(gpus)} GPUs; fp32 in TFLOP/s. klab device --gpu NAME shows one, with its sources."))


def show_measured(
    name: str, rates: Sequence[Rate], clock_mhz: Sequence[float] | None, doubts: Sequence[str], out: Console
) -> None:
    out.print(Text(f"{name}, measured{_clock(clock_mhz)}", style="bold"))
    columns = [Column("", "left"), Column(""), Column("", "left", wrap_to=20, style="dim")]
    rows = []
    for rate in rates:
        value = "–" if rate["value"] is None else f"{words.digits(rate['value'])} {rate['unit']}"
        rows.append(Row([rate["name"], value, rate["how"]]))
    print_table(Table(columns, rows, header=False), out)
    for doubt in doubts:
        out.print(Text(f" not to be trusted: {doubt}", style="yellow"))
    out.print()


def _clock(clock_mhz: Sequence[float] | None) -> str:
    if clock_mhz is None:
        return " (the clock cannot be read here)"
    low, high = (f"{value:.0f}" for value in clock_mhz)
    return f" at {low} MHz" if low == high else f" at {low}–{high} MHz"
