"""A device as a table, the database as a list, measured rates with doubts about them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from kernellab.gpumodel.described_device import DescribedDevice, KnownGpu, PresentCpu
from kernellab.machine.gpus import Gpu
from kernellab.reporting.text import numbers
from kernellab.reporting.text.table import Column, Row, Table, print_table
from kernellab.timing.documents import Rate

_SOURCE = "Source:"
_WIDE = 110  # columns of a terminal from which the last cell of a row is beside the others instead of below


def show(device: DescribedDevice, out: Console) -> None:
    out.print(Text(device.heading, style="bold"))
    if isinstance(device, KnownGpu) and device.variants:
        others = ", ".join(device.variants)
        out.print(Text(f"{device.requested} means the common variant; others: {others}", style="dim"))
    out.print()
    wide = out.width >= _WIDE
    texts = ["scope", "here", *(["what matters"] if wide else [])]
    columns = [Column("part", "left"), Column("", "left"), *(Column(title, "left", wrap_to=12) for title in texts)]
    rows = [Row([row.name, row.kind, row.scope, row.capacity, *([row.matters] if wide else [])]) for row in device.rows]
    print_table(Table(columns, rows, indent=0), out)
    out.print()
    if not wide:
        for row in device.rows:
            out.print(Text.assemble((f"{row.name}: ", "dim"), row.matters))
        out.print()
    for line in _closing(device):
        out.print(Text(line), soft_wrap=line.startswith(_SOURCE))  # an address must not be broken


def _closing(device: DescribedDevice) -> list[str]:
    if isinstance(device, PresentCpu):
        return ["klab device --gpu a100 shows a GPU, --list the database; klab device --measure measures this CPU."]
    if not isinstance(device, KnownGpu):
        return ["klab device --measure measures its bandwidths and matmul rates."]
    gpu = device.gpu
    tensor = ", ".join(f"{dtype} {numbers.digits(rate)}" for dtype, rate in device.tensor_tflops.items())
    power = f", {gpu.tdp_w} W" if gpu.tdp_w else ""
    lines = [
        f"Peak rates at {gpu.boost_mhz} MHz{power}: fp32 {numbers.digits(gpu.fp32_tflops)} TFLOP/s; "
        f"tensor cores, dense, accumulating in fp32: {tensor}.",
    ]
    if gpu.note:
        lines.append(gpu.note)
    return [*lines, *(f"{_SOURCE} {source.title} {source.url}".rstrip() for source in gpu.sources)]


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
        rows.append(Row([gpu.name, gpu.arch, *sizes, numbers.digits(gpu.fp32_tflops), str(gpu.tdp_w or "")]))
    print_table(Table(columns, rows, indent=0), out)
    out.print()
    out.print(Text(f"{len(gpus)} GPUs; fp32 in TFLOP/s. klab device --gpu NAME shows one, with its sources."))


def show_measured(
    name: str, rates: Sequence[Rate], clock_mhz: Sequence[float] | None, doubts: Sequence[str], out: Console
) -> None:
    """The rates of a device, the range of its clock meanwhile, and why the figures may be wrong."""
    out.print(Text(f"{name}, measured{_clock(clock_mhz)}", style="bold"))
    columns = [Column("", "left"), Column(""), Column("", "left", wrap_to=20, style="dim")]
    rows = []
    for rate in rates:
        value = "–" if rate["value"] is None else f"{numbers.digits(rate['value'])} {rate['unit']}"
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
