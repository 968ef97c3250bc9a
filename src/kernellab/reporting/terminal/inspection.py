"""What ways compiled to: a table of facts per kernel, and what stands out; `kernels` is the same as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernellab.gpumodel.occupancy import describe_limiters
from kernellab.reporting.text import numbers as words

Kernel = dict[str, Any]

_OF_FACTS = (
    *("registers", "spill_bytes", "stack_bytes", "barriers", "instructions", "executed", "accesses"),
    *("widest_global_bytes", "narrowest_global_bytes", "predicated", "uses", "loops", "remarks"),
)
_KEPT = (
    *("kind", "symbol", "cubin_arch", "grid", "block", "cluster", "config", "tuned", "times", "parameters", "sources"),
    *("build_s", "refusal", "files", "not_exported"),
)


# Columns of numbers; the ones to give way on a narrow terminal, the first first.
_NUMBERS = ("grid", "block", "registers", "spilled", "shared", "occupancy", "instructions", "access")
_GIVE_WAY = ("instructions", "spilled", "shared", "access", "grid", "block", "configuration")


def kernels(record: Mapping[str, Any]) -> list[Kernel]:
    """Every kernel of a record's `code`, each with its way, its case and its facts on one level."""
    return [_flat(entry, kernel) for entry in record["code"] for kernel in entry["kernels"]]


def _flat(entry: Mapping[str, Any], kernel: Mapping[str, Any]) -> Kernel:
    found = {key: entry[key] for key in ("op", "impl", "arch", "gpu", "case", "pass")}
    found |= {"name": kernel["name"], **{key: kernel[key] for key in _KEPT if key in kernel}}
    told, fits = kernel["facts"], kernel["occupancy"]
    if told is not None:
        found |= {key: told[key] for key in _OF_FACTS if key in told}
        found |= {
            "shared_bytes": kernel["shared_total_bytes"],
            "static_shared_bytes": told["shared_bytes"],
            "dynamic_shared_bytes": kernel["shared_bytes"],
            "occupancy": fits,
        }
    return found


def others(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Ways of which there is nothing to read, and why."""
    names = ("op", "impl", "arch", "case", "pass", "status", "reason")
    return [{name: entry[name] for name in names} for entry in record["code"] if entry["status"] != "ok"]


def show(record: Mapping[str, Any], out: Console) -> None:
    for case, of in dict.fromkeys((words.case_label(e["case"]), e["pass"]) for e in record["code"] if e["kernels"]):
        found = [k for k in kernels(record) if (words.case_label(k["case"]), k["pass"]) == (case, of)]
        out.print(Text(f"{found[0]['op']} · {case} · {of}", style="bold"))
        read = [k for k in found if "registers" in k]
        if read:
            for part in _table(read, out.width if out.is_terminal else None):
                out.print(part)
        for line in [*_refused(read), *_standing_out(read), *_unread(found)]:
            out.print(line, soft_wrap=not out.is_terminal)
        out.print()
    for line in reasons(others(record)):
        out.print(line, soft_wrap=not out.is_terminal)


def _table(found: list[Kernel], wide: int | None) -> Iterator[Table | Text]:
    """Of what does not fit a terminal, columns are left out and named: cut to a few letters they tell nothing."""
    tuned = any(k["tuned"] for k in found)
    titles = ["way", "kernel", "arch", *(("configuration",) if tuned else ()), *_NUMBERS]
    counted: dict[tuple[str, ...], int] = {}
    for k in found:
        chosen = (configuration(k),) if tuned else ()
        row = (k["impl"], k["name"], k["arch"], *chosen, *_numbers(k))
        counted[row] = counted.get(row, 0) + k.get("times", 1)
    rows = [(way, f"{name} × {n}" if n > 1 else name, *more) for (way, name, *more), n in counted.items()]
    widths = {title: max(len(row[at]) for row in (titles, *rows)) + 2 for at, title in enumerate(titles)}
    left_out: list[str] = []
    while wide and sum(widths.values()) > wide and len(left_out) < len(_GIVE_WAY):
        left_out.append(_GIVE_WAY[len(left_out)])
        widths.pop(left_out[-1], None)
    table = Table(box=None, pad_edge=True, padding=(0, 1), header_style="dim")
    for title in widths:  # a name says enough when it is cut, nothing else does
        table.add_column(title, justify="right" if title in _NUMBERS else "left", no_wrap=title != "kernel")
    for row in rows:
        cells = (cell for title, cell in zip(titles, row, strict=True) if title in widths)
        table.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in cells))
    yield table
    if left_out:
        yield Text(f" A wider terminal shows: {', '.join(title for title in titles if title in left_out)}", style="dim")


def _numbers(k: Kernel) -> Iterator[str]:
    yield _size(k["grid"]) + (f" by {_size(k['cluster'])}" if k["cluster"] != [1, 1, 1] else "")
    yield _size(k["block"])
    yield str(k["registers"])
    yield "" if not k["spill_bytes"] else words.memory(k["spill_bytes"])
    yield words.memory(k["shared_bytes"]) if k["shared_bytes"] else ""
    yield "cannot launch" if k["refusal"] else _fits(k["occupancy"])
    yield str(sum(k["instructions"].values()))
    widest, narrowest = k["widest_global_bytes"], k["narrowest_global_bytes"]
    yield "" if not widest else f"{widest} B" if widest == narrowest else f"{narrowest}–{widest} B"


def _fits(fits: Mapping[str, Any]) -> str:
    if not fits["blocks_per_sm"]:
        return "cannot launch"
    tied = describe_limiters(fits.get("limiters") or [fits["limiter"]])
    return words.percent(fits["fraction"]) + ("" if fits["fraction"] >= 1 else f", {tied}")


def configuration(k: Kernel) -> str:
    """What was chosen, in the words of its source: `BLOCK=256 num_warps=4`."""
    if not k["tuned"]:
        return ""
    chosen = dict(k["config"])
    constants = chosen.pop("constexprs", {})
    if chosen.get("num_ctas") == 1:  # no clusters
        del chosen["num_ctas"]
    return " ".join(f"{name}={value}" for name, value in {**constants, **chosen}.items())


def parameters(k: Kernel) -> Iterator[str]:
    """What the kernel was launched with, as its PTX numbers it, and what the compiler made of it."""
    number = 0
    for one in k["parameters"]:
        if one["special"].endswith("a constant"):
            yield f"{one['name']} is no parameter: {one['special']}"
            continue
        named = f" is {one['name']}" if not one["name"].startswith("argument ") else ""
        told = one["value"] if one["value"].startswith(("pointer", "descriptor")) else f"{one['type']}, {one['value']}"
        yield f"parameter {number}{named}: {told}" + (f"; {one['special']}" if one["special"] else "")
        number += 1


def _size(dims: list[int]) -> str:
    x, y, z = dims
    return f"{x}×{y}×{z}" if z > 1 else f"{x}×{y}" if y > 1 else str(x)


def _standing_out(found: list[Kernel]) -> Iterator[Text]:
    """Remarks, each once with every architecture it holds for."""
    said: dict[tuple[str, str, str], list[str]] = {}
    for k in found:
        for remark in k["remarks"]:
            said.setdefault((k["impl"], k["name"], remark), []).append(k["arch"])
    for (impl, name, remark), archs in said.items():
        yield Text(f" {impl} {name} ({', '.join(dict.fromkeys(archs))}): {remark}", style="yellow")


def _refused(found: list[Kernel]) -> Iterator[Text]:
    for k in found:
        fits, why = k["occupancy"], k["refusal"]
        if not fits["blocks_per_sm"]:
            why = f"{fits['refusal']}: {fits['remedy']}" if fits.get("refusal") else fits["remedy"]
        if why:
            yield Text(f" {k['impl']} {k['name']} on {k['arch']} cannot launch: {why}", style="bold red")


def _unread(found: list[Kernel]) -> Iterator[Text]:
    for k in (k for k in found if "registers" not in k):
        if k["refusal"]:
            which = configuration(k)
            yield Text(f" {k['impl']} {k['name']} {which} on {k['arch']}: {k['refusal']}", style="yellow")
        else:
            yield Text(f" {k['impl']}  {k['name']}, for this CPU: {', '.join(k['files'].values())}")


def reasons(found: Iterable[Mapping[str, Any]]) -> Iterator[Text]:
    """A line for each of `others`; the same reason for every architecture is told once."""
    said: dict[tuple[str, str, str], list[str]] = {}
    for one in found:
        said.setdefault((one["impl"], one["status"], one["reason"]), []).append(one["arch"])
    for (impl, status, reason), archs in said.items():
        bad = status not in ("none", "skipped")
        where = f" ({', '.join(dict.fromkeys(archs))})" if bad else ""
        yield Text(f" {impl}{where}  {status}: {reason}", style="bold red" if bad else "")
