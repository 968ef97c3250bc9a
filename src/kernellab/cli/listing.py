"""`klab list`: the ops, their ways, and whether each can run here. Reads source, imports none of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from kernellab.declaration.catalogue import CatalogueEntry, catalogue
from kernellab.declaration.kinds import Kind
from kernellab.machine import tools


def arguments(sub: argparse.ArgumentParser, verb: str) -> None:
    sub.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace, rest: list[str]) -> int:
    from kernellab.cli.options import dims_in

    dims_in(rest)
    entries = catalogue()
    if args.json:
        print(json.dumps([_as_json(entry) for entry in entries], indent=1))
        return 0
    for entry in entries:
        origin = "" if entry.origin == "kernellab" else f"  (from {entry.origin})"
        print(f"{entry.name}{origin}  {entry.summary}")
        if entry.problem:
            print(f"  problem: {entry.problem}")
        widest = max((12, *map(len, entry.impls)))
        for way, kind in entry.impls.items():
            study = "; a study, run when named by --impl" if way in entry.studies else ""
            print(f"  {way:<{widest}} {availability(kind)}{study}")
        if entry.computed_names:
            print("  … and ways named when its file runs")
        print()
    where = "a GPU" if tools.has_gpu() else "no GPU"
    print(f"{len(entries)} ops; this machine has {where}. klab run NAME measures one.")
    return 0


# What each kind needs beyond a device, and what to say when it is missing.
_NEEDS: dict[str, list[tuple[Callable[[], object], str]]] = {
    "compile": [(tools.cxx, "needs a C++ compiler"), (tools.python_headers, "needs Python's headers (python3-dev)")],
    "triton": [(lambda: tools.has_module("triton"), "needs the package triton")],
    "cuda": [(lambda: tools.has_module("cuda"), "needs the package cuda-core")],
    "cpp": [(tools.cxx, "needs a C++ compiler")],
}


def availability(kind: Kind) -> str:
    """`checked and timed`, or what is missing."""
    for have, missing in _NEEDS.get(kind.name, []):
        if not have():
            return missing
    if tools.has_gpu():
        return "on the CPU (--device cpu)" if kind.cuda else "checked and timed"
    if kind.interpreted_on_cpu:
        return "checked in the interpreter; timing needs a GPU"
    return kind.cpu or "checked and timed"


def _as_json(entry: CatalogueEntry) -> dict[str, object]:
    return {
        "op": entry.name,
        "origin": entry.origin,
        "summary": entry.summary,
        "ways": {way: availability(kind) for way, kind in entry.impls.items()},
        "studies": sorted(entry.studies),
        "problem": entry.problem or None,
    }
