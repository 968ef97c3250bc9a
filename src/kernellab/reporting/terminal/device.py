"""A device as a table, the database as a list, measured rates with doubts about them. Reads plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from kernellab.reporting.text import numbers as words
from kernellab.reporting.text.table import Column, Row, Table, print_table

_SOURCE = "Source:"
_WIDE = 110  # columns of a terminal from which the last cell of a row is beside the others instead of below


def show(described: Mapping[str, Any], out: Console) -> None:
    out.print(Text(_heading(described), style="bold"))
    if described.get("variants"):
        others = ", ".join(described["variants"])
        out.print(Text(f"{described['asked']} means the common variant; others: {others}", style="dim"))
    out.print()
    wide = out.width >= _WIDE
    texts = ["scope", "here", *(["what matters"] if wide else [])]
    columns = [Column("part", "left"), Column("", "left"), *(Column(title, "left", wrap_to=12) for title in texts)]
    keys = ["name", "kind", "scope", "capacity", *(["matters"] if wide else [])]
    print_table(Table(columns, [Row([row[key] for key in keys]) for row in described["rows"]], indent=0), out)
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
        l2 = "" if gpu["l2_bytes"] is None else f"{gpu['l2_bytes'] / 2**20:g}"
        memory = f"{gpu['memory_gb']:g} GB"
        numbers = (gpu["sms"], gpu["boost_mhz"], memory, f"{gpu['pin_gbps']:.0f}", l2)
        rate, power = words.digits(gpu["fp32_tflops"]), str(gpu["tdp_w"] or "")
        rows.append(Row([gpu["name"], gpu["arch"], *map(str, numbers), rate, power]))
    print_table(Table(columns, rows, indent=0), out)
    out.print()
    out.print(Text(f"{len(gpus)} GPUs; fp32 in TFLOP/s. klab device --gpu NAME shows one, with its sources."))


def show_measured(measured: Mapping[str, Any], out: Console) -> None:
    out.print(Text(f"{measured['name']}, measured{_clock(measured)}", style="bold"))
    columns = [Column("", "left"), Column(""), Column("", "left", wrap_to=20, style="dim")]
    rows = []
    for rate in measured["rates"]:
        value = "–" if rate["value"] is None else f"{words.digits(rate['value'])} {rate['unit']}"
        rows.append(Row([rate["name"], value, rate["how"]]))
    print_table(Table(columns, rows, header=False), out)
    for doubt in measured["doubts"]:
        out.print(Text(f" not to be trusted: {doubt}", style="yellow"))
    out.print()


def _clock(measured: Mapping[str, Any]) -> str:
    clock = measured["clock_mhz"]
    if clock is None:
        return " (the clock cannot be read here)"
    low, high = (f"{value:.0f}" for value in clock)
    return f" at {low} MHz" if low == high else f" at {low}–{high} MHz"
