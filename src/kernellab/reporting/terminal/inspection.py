"""Prints what an op's implementations compile to: a table of facts per kernel, then remarks and failures.

`list_kernels` and `list_failures` are the same as data, for `--json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernellab.gpumodel.occupancy import in_words
from kernellab.reporting.terminal.code import print_indented
from kernellab.reporting.text import numbers as words

Kernel = dict[str, Any]
StyledLine = tuple[str, str]  # a text and its style

_FACTS = (
    *("registers", "spill_bytes", "stack_bytes", "barriers", "instructions", "executed", "accesses"),
    *("widest_global_bytes", "narrowest_global_bytes", "predicated", "uses", "loops", "remarks"),
)
_OF_LAUNCH = (
    *("kind", "symbol", "cubin_arch", "grid", "block", "cluster", "config", "tuned", "times", "parameters", "sources"),
    *("build_s", "refusal", "files", "not_exported"),
)

_NUMBERS = ("grid", "block", "registers", "spilled", "shared", "occupancy", "instructions", "access")
# Columns that a narrow terminal omits, the first first.
_OMITTED_FIRST = ("instructions", "spilled", "shared", "access", "grid", "block", "configuration")


def list_kernels(record: Mapping[str, Any]) -> list[Kernel]:
    """Every kernel of a record's `code`, each with its implementation, its case and its facts on one level."""
    return [_flatten(entry, kernel) for entry in record["code"] for kernel in entry["kernels"]]


def _flatten(entry: Mapping[str, Any], kernel: Mapping[str, Any]) -> Kernel:
    flat = {key: entry[key] for key in ("op", "impl", "arch", "gpu", "case", "pass")}
    flat |= {"name": kernel["name"], **{key: kernel[key] for key in _OF_LAUNCH if key in kernel}}
    facts = kernel["facts"]
    if facts is not None:
        flat |= {key: facts[key] for key in _FACTS if key in facts}
        flat |= {
            "shared_bytes": kernel["shared_total_bytes"],
            "static_shared_bytes": facts["shared_bytes"],
            "dynamic_shared_bytes": kernel["shared_bytes"],
            "occupancy": kernel["occupancy"],
        }
    return flat


def list_failures(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Implementations without kernels, and why."""
    keys = ("op", "impl", "arch", "case", "pass", "status", "reason")
    return [{key: entry[key] for key in keys} for entry in record["code"] if entry["status"] != "ok"]


def show_inspection(record: Mapping[str, Any], out: Console) -> None:
    groups: dict[tuple[str, str], list[Kernel]] = {}
    for kernel in list_kernels(record):
        groups.setdefault((words.case_label(kernel["case"]), kernel["pass"]), []).append(kernel)
    for (case, pass_name), kernels in groups.items():
        out.print(Text(f"{kernels[0]['op']} · {case} · {pass_name}", style="bold"))
        with_facts = [kernel for kernel in kernels if "registers" in kernel]
        if with_facts:
            for part in build_table(with_facts, out.width if out.is_terminal else None):
                out.print(part)
        lines = [*_describe_refusals(with_facts), *_describe_remarks(with_facts), *_describe_others(kernels)]
        for text, style in lines:
            print_indented(text, 1, out, style)
        out.print()
    show_failures(list_failures(record), out)


def show_failures(failures: Iterable[Mapping[str, Any]], out: Console) -> None:
    """A line for each of `list_failures`; one line where the reason is the same for several architectures."""
    for text, style in describe_failures(failures):
        print_indented(text, 1, out, style)


def build_table(kernels: Sequence[Kernel], width: int | None) -> Iterator[Table | Text]:
    """The table, and a line that names the columns that did not fit: a column cut to a few letters says nothing."""
    tuned = any(kernel["tuned"] for kernel in kernels)
    titles = ["impl", "kernel", "arch", *(("configuration",) if tuned else ()), *_NUMBERS]
    counts: dict[tuple[str, ...], int] = {}
    for kernel in kernels:
        configuration = (describe_configuration(kernel),) if tuned else ()
        row = (kernel["impl"], kernel["name"], kernel["arch"], *configuration, *_number_cells(kernel))
        counts[row] = counts.get(row, 0) + kernel.get("times", 1)
    rows = [(impl, f"{name} × {n}" if n > 1 else name, *more) for (impl, name, *more), n in counts.items()]
    widths = {title: max(len(row[at]) for row in (titles, *rows)) + 2 for at, title in enumerate(titles)}
    omitted: list[str] = []
    while width and sum(widths.values()) > width and len(omitted) < len(_OMITTED_FIRST):
        omitted.append(_OMITTED_FIRST[len(omitted)])
        widths.pop(omitted[-1], None)
    table = Table(box=None, pad_edge=True, padding=(0, 1), header_style="dim")
    for title in widths:  # only a kernel's name may be cut: its beginning is enough
        table.add_column(title, justify="right" if title in _NUMBERS else "left", no_wrap=title != "kernel")
    for row in rows:
        cells = (cell for title, cell in zip(titles, row, strict=True) if title in widths)
        table.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in cells))
    yield table
    if omitted:
        yield Text(f" A wider terminal shows: {', '.join(title for title in titles if title in omitted)}", style="dim")


def _number_cells(kernel: Kernel) -> Iterator[str]:
    """The cells of the columns `_NUMBERS`."""
    clusters = f" by {_describe_dims(kernel['cluster'])}" if kernel["cluster"] != [1, 1, 1] else ""
    yield f"{_describe_dims(kernel['grid'])}{clusters}"
    yield _describe_dims(kernel["block"])
    yield str(kernel["registers"])
    yield words.memory(kernel["spill_bytes"]) if kernel["spill_bytes"] else ""
    yield words.memory(kernel["shared_bytes"]) if kernel["shared_bytes"] else ""
    yield "cannot launch" if kernel["refusal"] else _describe_occupancy(kernel["occupancy"])
    yield str(sum(kernel["instructions"].values()))
    widest, narrowest = kernel["widest_global_bytes"], kernel["narrowest_global_bytes"]
    yield "" if not widest else f"{widest} B" if widest == narrowest else f"{narrowest}–{widest} B"


def _describe_occupancy(occupancy: Mapping[str, Any]) -> str:
    if not occupancy["blocks_per_sm"]:
        return "cannot launch"
    limiters = in_words(occupancy.get("limiters") or [occupancy["limiter"]])
    return words.percent(occupancy["fraction"]) + ("" if occupancy["fraction"] >= 1 else f", {limiters}")


def describe_configuration(kernel: Kernel) -> str:
    """What a tuner chose, with the names of the source: `BLOCK=256 num_warps=4`. Empty for a kernel without a tuner."""
    if not kernel["tuned"]:
        return ""
    options = dict(kernel["config"])
    constants = options.pop("constexprs", {})
    if options.get("num_ctas") == 1:  # no clusters
        del options["num_ctas"]
    return " ".join(f"{name}={value}" for name, value in {**constants, **options}.items())


def describe_parameters(kernel: Kernel) -> Iterator[str]:
    """The arguments of the launch under the numbers of the PTX, and what the compiler assumed about them."""
    number = 0
    for parameter in kernel["parameters"]:
        name, value, special = parameter["name"], parameter["value"], parameter["special"]
        if special.endswith("a constant"):
            yield f"{name} is not a parameter: {special}"
            continue
        title = "" if name.startswith("argument ") else f" is {name}"
        content = value if value.startswith(("pointer", "descriptor")) else f"{parameter['type']}, {value}"
        yield f"parameter {number}{title}: {content}" + (f"; {special}" if special else "")
        number += 1


def _describe_dims(dims: Sequence[int]) -> str:
    x, y, z = dims
    return f"{x}×{y}×{z}" if z > 1 else f"{x}×{y}" if y > 1 else str(x)


def _describe_remarks(kernels: Iterable[Kernel]) -> Iterator[StyledLine]:
    """Each remark once, with every architecture that it applies to."""
    archs_of: dict[tuple[str, str, str], list[str]] = {}
    for kernel in kernels:
        for remark in kernel["remarks"]:
            archs_of.setdefault((kernel["impl"], kernel["name"], remark), []).append(kernel["arch"])
    for (impl, name, remark), archs in archs_of.items():
        yield f"{impl} {name} ({', '.join(dict.fromkeys(archs))}): {remark}", "yellow"


def _describe_refusals(kernels: Iterable[Kernel]) -> Iterator[StyledLine]:
    for kernel in kernels:
        occupancy, reason = kernel["occupancy"], kernel["refusal"]
        if not occupancy["blocks_per_sm"]:
            refusal, remedy = occupancy.get("refusal"), occupancy["remedy"]
            reason = f"{refusal}: {remedy}" if refusal else remedy
        if reason:
            where = f"{kernel['impl']} {kernel['name']} on {kernel['arch']}"
            yield f"{where} cannot launch: {reason}", "bold red"


def _describe_others(kernels: Iterable[Kernel]) -> Iterator[StyledLine]:
    """Kernels without facts: configurations that failed, and code for the CPU."""
    for kernel in kernels:
        if "registers" in kernel:
            continue
        if kernel["refusal"]:
            name = f"{kernel['impl']} {kernel['name']} {describe_configuration(kernel)}"
            yield f"{name} on {kernel['arch']}: {kernel['refusal']}", "yellow"
        else:
            yield f"{kernel['impl']}  {kernel['name']}, for this CPU: {', '.join(kernel['files'].values())}", ""


def describe_failures(failures: Iterable[Mapping[str, Any]]) -> Iterator[StyledLine]:
    archs_of: dict[tuple[str, str, str], list[str]] = {}
    for failure in failures:
        archs_of.setdefault((failure["impl"], failure["status"], failure["reason"]), []).append(failure["arch"])
    for (impl, status, reason), archs in archs_of.items():
        failed = status not in ("none", "skipped")
        where = f" ({', '.join(dict.fromkeys(archs))})" if failed else ""
        yield f"{impl}{where}  {status}: {reason}", "bold red" if failed else ""
