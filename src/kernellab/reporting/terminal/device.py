"""A device as a table, the database as a list, measured rates with doubts about them. Reads plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kernellab.reporting.text import numbers as words

_SOURCE = "Source:"
_WIDE = 110  # columns of a terminal from which the last cell of a row is beside the others instead of below


def show(described: Mapping[str, Any], out: Console) -> None:
    out.print(Text(_heading(described), style="bold"))
    if described.get("variants"):
        others = ", ".join(described["variants"])
        out.print(Text(f"{described['asked']} means the common variant; others: {others}", style="dim"))
    out.print()
    wide = out.width >= _WIDE
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    table.add_column("part", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("scope")
    table.add_column("here")
    if wide:
        table.add_column("what matters")
    for row in described["rows"]:
        cells = [row["name"], row["kind"], row["scope"], row["capacity"]]
        table.add_row(*cells, *([row["matters"]] if wide else []))
    out.print(table)
    out.print()
    if not wide:
        for row in described["rows"]:
            out.print(Text.assemble((f"{row['name']}: ", "dim"), row["matters"]))
        out.print()
    for line in _closing(described):
        out.print(Text(line), soft_wrap=line.startswith(_SOURCE))  # an address must not be broken


def _heading(described: Mapping[str, Any]) -> str:
    if described["kind"] == "cpu":
        cpu = described["cpu"]
        return f"{described['name']}: {cpu['cores']} cores, {cpu['memory_bytes'] / 2**30:.0f} GiB; no GPU here"
    gpu, chip = described["gpu"], described["chip"]
    return f"{described['name']}: {gpu['sms']} SMs, {chip['generation']} ({chip['arch']})"


def _closing(described: Mapping[str, Any]) -> list[str]:
    if described["kind"] == "cpu":
        return [
            "klab device --gpu a100 shows a GPU, --list the database; klab device --measure measures this CPU.",
        ]
    gpu = described["gpu"]
    if described["present"]:
        return ["klab device --measure measures its bandwidths and matmul rates."]
    rates = gpu["tflops_at_boost"]
    tensor = ", ".join(f"{dtype} {words.digits(rate)}" for dtype, rate in rates.items() if dtype != "fp32")
    power = f", {gpu['tdp_w']} W" if gpu["tdp_w"] else ""
    lines = [
        f"Peak rates at {gpu['boost_mhz']} MHz{power}: fp32 {words.digits(rates['fp32'])} TFLOP/s; "
        f"tensor cores, dense, accumulating in fp32: {tensor}.",
    ]
    if gpu["note"]:
        lines.append(gpu["note"])
    lines += [f"{_SOURCE} {source['title']} {source['url']}".rstrip() for source in gpu["sources"]]
    return lines


def show_list(gpus: Sequence[Mapping[str, Any]], out: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    table.add_column("GPU", no_wrap=True)
    table.add_column("arch", no_wrap=True)
    for title in ("SMs", "MHz", "memory", "GB/s", "L2 MB", "fp32", "W"):
        table.add_column(title, justify="right", no_wrap=True)
    for gpu in gpus:
        l2 = "" if gpu["l2_bytes"] is None else f"{gpu['l2_bytes'] / 2**20:g}"
        memory = f"{gpu['memory_gb']:g} GB"
        numbers = (gpu["sms"], gpu["boost_mhz"], memory, f"{gpu['pin_gbps']:.0f}", l2)
        table.add_row(
            gpu["name"], gpu["arch"], *map(str, numbers), words.digits(gpu["fp32_tflops"]), str(gpu["tdp_w"] or "")
        )
    out.print(table)
    out.print()
    out.print(Text(f"{len(gpus)} GPUs; fp32 in TFLOP/s. klab device --gpu NAME shows one, with its sources."))


def show_measured(measured: Mapping[str, Any], out: Console) -> None:
    out.print(Text(f"{measured['name']}, measured{_clock(measured)}", style="bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, show_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim")
    for row in measured["rates"]:
        if row["value"] is None:
            table.add_row(row["name"], "–", row["how"])
        else:
            table.add_row(row["name"], f"{words.digits(row['value'])} {row['unit']}", row["how"])
    out.print(Padding(table, (0, 0, 0, 1), expand=False))
    for doubt in measured["doubts"]:
        out.print(Text(f" not to be trusted: {doubt}", style="yellow"))
    out.print()


def _clock(measured: Mapping[str, Any]) -> str:
    clock = measured["clock_mhz"]
    if clock is None:
        return " (the clock cannot be read here)"
    low, high = (f"{value:.0f}" for value in clock)
    return f" at {low} MHz" if low == high else f" at {low}–{high} MHz"
