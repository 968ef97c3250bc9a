"""`klab list`: the ops, their implementations, and which can run here. Reads source and executes none of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from kernellab.machine import tools

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser
    from kernellab.declaration.catalogue import CatalogueEntry
    from kernellab.declaration.kinds import Kind

SUMMARY = "show the ops, their implementations, and which can run here"
ORDER = 120


def arguments(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    from kernellab.declaration.catalogue import catalogue

    entries = catalogue()
    if args.json:
        print(json.dumps([_to_json(entry) for entry in entries], indent=1))
        return 0
    for entry in entries:
        _print_entry(entry)
    where = "a GPU" if tools.has_gpu() else "no GPU"
    print(f"{len(entries)} ops; this machine has {where}. klab run NAME measures one.")
    return 0


def _print_entry(entry: CatalogueEntry) -> None:
    origin = "" if entry.origin == "kernellab" else f"  (from {entry.origin})"
    print(f"{entry.name}{origin}  {entry.summary}")
    if entry.problem:
        print(f"  problem: {entry.problem}")
    width = max((12, *map(len, entry.impls)))
    for impl, kind in entry.impls.items():
        study = "; a study: runs only if --impl names it" if impl in entry.studies else ""
        flaw = f"; wrong on purpose: {entry.flaws[impl]}" if impl in entry.flaws else ""
        print(f"  {impl:<{width}} {availability(kind)}{study}{flaw}")
    if entry.computed_names:
        print("  … and implementations that are named only when the file runs")
    print()


# What each kind needs besides a device: how to look for it, and what to say where it is missing.
_NEEDS: dict[str, list[tuple[Callable[[], object], str]]] = {
    "compile": [(tools.cxx, "needs a C++ compiler"), (tools.python_headers, "needs Python's headers (python3-dev)")],
    "triton": [(lambda: tools.has_module("triton"), "needs the package triton")],
    "cuda": [(lambda: tools.has_module("cuda"), "needs the package cuda-core")],
    "cpp": [(tools.cxx, "needs a C++ compiler")],
}


def availability(kind: Kind) -> str:
    """`checked and timed`, or what is missing."""
    for is_present, missing in _NEEDS.get(kind.name, []):
        if not is_present():
            return missing
    if tools.has_gpu():
        return "on the CPU (--device cpu)" if kind.cuda else "checked and timed"
    if kind.interpreted_on_cpu:
        return "checked in the interpreter; timing needs a GPU"
    return kind.cpu or "checked and timed"


def _to_json(entry: CatalogueEntry) -> dict[str, object]:
    return {
        "op": entry.name,
        "origin": entry.origin,
        "summary": entry.summary,
        "impls": {impl: availability(kind) for impl, kind in entry.impls.items()},
        "studies": sorted(entry.studies),
        "flaws": entry.flaws,
        "problem": entry.problem or None,
    }
