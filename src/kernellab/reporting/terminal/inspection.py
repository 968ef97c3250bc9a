"""Prints what an op's implementations compile to: a table of facts per kernel, then remarks and failures.

`list_kernels` and `list_failures` are the same as data, for `--json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, NotRequired, TypedDict

from rich.console import Console
from rich.text import Text

from kernellab.base.json import JsonObject
from kernellab.codeanalysis.kernel_json import (
    AccessJson,
    KernelJson,
    LoopJson,
    OccupancyJson,
    ParameterJson,
    SourceJson,
)
from kernellab.declaration.documents import CaseJson
from kernellab.gpumodel.occupancy import describe_limiters
from kernellab.record.derived import DerivedRecord
from kernellab.record.schema import CodeJson, Record
from kernellab.reporting.sentences.configuration import describe_configuration
from kernellab.reporting.terminal.code import print_indented
from kernellab.reporting.text import numbers as words
from kernellab.reporting.text.table import Column, Row, Table, print_table

StyledLine = tuple[str, str]  # a text and its style

# Columns of numbers, and in which order a narrow terminal leaves them out: the highest first, 0 never.
_NUMBERS = {
    "grid": 3,
    "block": 2,
    "registers": 0,
    "spilled": 6,
    "shared": 5,
    "occupancy": 0,
    "instructions": 7,
    "access": 4,
}

_Pass = TypedDict("_Pass", {"pass": str})


class InspectedKernel(_Pass):
    """A kernel with its implementation, its case and its facts on one level. Kernels for the CPU have no facts."""

    op: str
    impl: str
    arch: str
    gpu: str | None
    case: CaseJson | None
    name: str
    kind: str
    config: JsonObject
    tuned: list[int] | None
    parameters: list[ParameterJson]
    sources: list[SourceJson]
    refusal: str
    files: dict[str, str]
    # Of a launch:
    symbol: NotRequired[str]
    cubin_arch: NotRequired[str]
    grid: NotRequired[list[int]]
    block: NotRequired[list[int]]
    cluster: NotRequired[list[int]]
    times: NotRequired[int]
    build_s: NotRequired[float]
    not_exported: NotRequired[str]
    # Of its machine code:
    registers: NotRequired[int | None]
    spill_bytes: NotRequired[int | None]
    stack_bytes: NotRequired[int | None]
    barriers: NotRequired[int | None]
    instructions: NotRequired[dict[str, int]]
    executed: NotRequired[dict[str, int]]
    accesses: NotRequired[list[AccessJson]]
    widest_global_bytes: NotRequired[int]
    narrowest_global_bytes: NotRequired[int]
    predicated: NotRequired[int]
    uses: NotRequired[list[str]]
    loops: NotRequired[list[LoopJson]]
    remarks: NotRequired[list[str]]
    shared_bytes: NotRequired[int]
    static_shared_bytes: NotRequired[int | None]
    dynamic_shared_bytes: NotRequired[int]
    occupancy: NotRequired[OccupancyJson]


class FailedImpl(NamedTuple):
    impl: str
    arch: str
    status: str
    reason: str | None


class Failure(_Pass):
    """An implementation without kernels, and why."""

    op: str
    impl: str
    arch: str
    case: CaseJson | None
    status: str
    reason: str


def list_kernels(record: Record | DerivedRecord) -> list[InspectedKernel]:
    """Every kernel of a record's `code`."""
    return [_flatten(entry, kernel) for entry in record["code"] for kernel in entry["kernels"]]


def _flatten(entry: CodeJson, kernel: KernelJson) -> InspectedKernel:
    flat: InspectedKernel = {
        "op": entry["op"],
        "impl": entry["impl"],
        "arch": entry["arch"],
        "gpu": entry["gpu"],
        "case": entry["case"],
        "pass": entry["pass"],
        "name": kernel["name"],
        "kind": kernel["kind"],
        "config": kernel["config"],
        "tuned": kernel["tuned"],
        "parameters": kernel["parameters"],
        "sources": kernel["sources"],
        "refusal": kernel["refusal"],
        "files": kernel["files"],
    }
    _copy_launch(kernel, flat)
    if "cubin_arch" in kernel:
        flat["cubin_arch"] = kernel["cubin_arch"]
    if "not_exported" in kernel:
        flat["not_exported"] = kernel["not_exported"]
    facts, occupancy = kernel["facts"], kernel["occupancy"]
    if facts is not None and occupancy is not None:
        flat["registers"], flat["spill_bytes"] = facts["registers"], facts["spill_bytes"]
        flat["stack_bytes"], flat["barriers"] = facts["stack_bytes"], facts["barriers"]
        flat["instructions"] = facts["instructions"]
        if "executed" in facts:
            flat["executed"] = facts["executed"]
        flat["accesses"] = facts["accesses"]
        flat["widest_global_bytes"] = facts["widest_global_bytes"]
        flat["narrowest_global_bytes"] = facts["narrowest_global_bytes"]
        flat["predicated"], flat["uses"] = facts["predicated"], facts["uses"]
        flat["loops"], flat["remarks"] = facts["loops"], facts["remarks"]
        if "shared_total_bytes" in kernel:
            flat["shared_bytes"] = kernel["shared_total_bytes"]
        flat["static_shared_bytes"] = facts["shared_bytes"]
        if "shared_bytes" in kernel:
            flat["dynamic_shared_bytes"] = kernel["shared_bytes"]
        flat["occupancy"] = occupancy
    return flat


def _copy_launch(kernel: KernelJson, flat: InspectedKernel) -> None:
    """Copies what is known of the launch: any of it may be absent."""
    if "symbol" in kernel:
        flat["symbol"] = kernel["symbol"]
    if "grid" in kernel:
        flat["grid"] = kernel["grid"]
    if "block" in kernel:
        flat["block"] = kernel["block"]
    if "cluster" in kernel:
        flat["cluster"] = kernel["cluster"]
    if "times" in kernel:
        flat["times"] = kernel["times"]
    if "build_s" in kernel:
        flat["build_s"] = kernel["build_s"]


def list_failures(record: Record) -> list[Failure]:
    """Implementations without kernels, and why."""
    return [
        {
            "op": entry["op"],
            "impl": entry["impl"],
            "arch": entry["arch"],
            "case": entry["case"],
            "pass": entry["pass"],
            "status": entry["status"],
            "reason": entry["reason"],
        }
        for entry in record["code"]
        if entry["status"] != "ok"
    ]


def show_inspection(record: Record, out: Console) -> None:
    groups: dict[tuple[str, str], list[InspectedKernel]] = {}
    for kernel in list_kernels(record):
        case = words.case_label(kernel["case"]) if kernel["case"] else ""
        groups.setdefault((case, kernel["pass"]), []).append(kernel)
    for (case, pass_name), kernels in groups.items():
        out.print(Text(f"{kernels[0]['op']} · {case} · {pass_name}", style="bold"))
        with_facts = [kernel for kernel in kernels if "registers" in kernel]
        if with_facts:
            print_table(build_table(with_facts), out)
        lines = [*_describe_refusals(with_facts), *_describe_remarks(with_facts), *_describe_others(kernels)]
        for text, style in lines:
            print_indented(text, 1, out, style)
        out.print()
    failures = list_failures(record)
    show_failures([FailedImpl(f["impl"], f["arch"], f["status"], f["reason"]) for f in failures], out)


def show_failures(failures: Iterable[FailedImpl], out: Console) -> None:
    """A line for each failure; one line where the reason is the same for several architectures."""
    for text, style in describe_failures(failures):
        print_indented(text, 1, out, style)


def build_table(kernels: Sequence[InspectedKernel]) -> Table:
    """One row for launches that look alike."""
    tuned = any(kernel["tuned"] for kernel in kernels)
    columns = [
        Column("impl", "left"),
        Column("kernel", "left", cut_to=6),  # the beginning of a name is enough
        Column("arch", "left"),
        *([Column("configuration", "left", drop=1)] if tuned else []),
        *(Column(title, drop=drop) for title, drop in _NUMBERS.items()),
    ]
    counts: dict[tuple[str, ...], int] = {}
    for kernel in kernels:
        configuration = (describe_configuration(kernel["tuned"], kernel["config"]),) if tuned else ()
        row = (kernel["impl"], kernel["name"], kernel["arch"], *configuration, *_number_cells(kernel))
        counts[row] = counts.get(row, 0) + kernel.get("times", 1)
    rows = [Row([impl, f"{name} × {n}" if n > 1 else name, *more]) for (impl, name, *more), n in counts.items()]
    return Table(columns, rows)


def _number_cells(kernel: InspectedKernel) -> Iterator[str]:
    """The cells of the columns `_NUMBERS`."""
    cluster = kernel.get("cluster") or [1, 1, 1]
    clusters = f" by {_describe_dims(cluster)}" if cluster != [1, 1, 1] else ""
    yield f"{_describe_dims(kernel.get('grid') or [])}{clusters}"
    yield _describe_dims(kernel.get("block") or [])
    yield str(kernel["registers"])
    yield words.memory(kernel["spill_bytes"]) if kernel["spill_bytes"] else ""
    yield words.memory(kernel["shared_bytes"]) if kernel.get("shared_bytes") else ""
    yield "cannot launch" if kernel["refusal"] else _describe_occupancy(kernel["occupancy"])
    yield str(sum(kernel["instructions"].values()))
    widest, narrowest = kernel["widest_global_bytes"], kernel["narrowest_global_bytes"]
    yield "" if not widest else f"{widest} B" if widest == narrowest else f"{narrowest}–{widest} B"


def _describe_occupancy(occupancy: OccupancyJson) -> str:
    if not occupancy["blocks_per_sm"]:
        return "cannot launch"
    limiters = describe_limiters(occupancy.get("limiters") or [occupancy["limiter"]])
    return words.percent(occupancy["fraction"]) + ("" if occupancy["fraction"] >= 1 else f", {limiters}")


def describe_parameters(kernel: InspectedKernel) -> Iterator[str]:
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
    """`128` for 128×1×1. A record from a stranger may have any number of dims."""
    shown = list(dims)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return "×".join(map(str, shown))


def _describe_remarks(kernels: Iterable[InspectedKernel]) -> Iterator[StyledLine]:
    """Each remark once, with every architecture that it applies to."""
    archs_of: dict[tuple[str, str, str], list[str]] = {}
    for kernel in kernels:
        for remark in kernel["remarks"]:
            archs_of.setdefault((kernel["impl"], kernel["name"], remark), []).append(kernel["arch"])
    for (impl, name, remark), archs in archs_of.items():
        yield f"{impl} {name} ({', '.join(dict.fromkeys(archs))}): {remark}", "yellow"


def _describe_refusals(kernels: Iterable[InspectedKernel]) -> Iterator[StyledLine]:
    for kernel in kernels:
        occupancy, reason = kernel["occupancy"], kernel["refusal"]
        if not occupancy["blocks_per_sm"]:
            refusal, remedy = occupancy.get("refusal"), occupancy["remedy"]
            reason = f"{refusal}: {remedy}" if refusal else remedy
        if reason:
            where = f"{kernel['impl']} {kernel['name']} on {kernel['arch']}"
            yield f"{where} cannot launch: {reason}", "bold red"


def _describe_others(kernels: Iterable[InspectedKernel]) -> Iterator[StyledLine]:
    """Kernels without facts: configurations that failed, and code for the CPU."""
    for kernel in kernels:
        if "registers" in kernel:
            continue
        if kernel["refusal"]:
            configuration = describe_configuration(kernel["tuned"], kernel["config"])
            name = f"{kernel['impl']} {kernel['name']} {configuration}"
            yield f"{name} on {kernel['arch']}: {kernel['refusal']}", "yellow"
        else:
            yield f"{kernel['impl']}  {kernel['name']}, for this CPU: {', '.join(kernel['files'].values())}", ""


def describe_failures(failures: Iterable[FailedImpl]) -> Iterator[StyledLine]:
    archs_of: dict[tuple[str, str, str | None], list[str]] = {}
    for failure in failures:
        archs_of.setdefault((failure.impl, failure.status, failure.reason), []).append(failure.arch)
    for (impl, status, reason), archs in archs_of.items():
        failed = status not in ("none", "skipped")
        where = f" ({', '.join(dict.fromkeys(archs))})" if failed else ""
        yield f"{impl}{where}  {status}: {reason}", "bold red" if failed else ""
