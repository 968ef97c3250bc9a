"""`klab inspect FILE…`: files of machine code read, explained and compared. Files need no GPU and execute nothing."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.base.errors import UserError, nearest

if TYPE_CHECKING:
    from kernellab.codeanalysis.code_files import Listing

_SHOWN = ("facts", "explain", "source", "sass")
_OF_OPS = ("arch", "impl", "shape", "dtype", "opt", "passes", "out", "export", "timings")


def run(args: argparse.Namespace, rest: list[str]) -> int:
    from kernellab.cli.options import dims_in
    from kernellab.codeanalysis.code_files import read_code_file

    dims_in(rest)
    for option in _OF_OPS:
        if getattr(args, option) is not None:
            flag = "--pass" if option == "passes" else f"--{option}"
            raise UserError(f"{flag} is for an op's ways, and {args.target[0]} is compiled already: leave it out")
    if args.show is not None and args.show not in _SHOWN:
        raise UserError(f"--show {args.show}: {nearest(args.show, _SHOWN)}")
    listings = [_only(read_code_file(Path(target)), args.kernel) for target in args.target]
    if args.diff is not None:
        if len({listing.name for listing in listings}) == 1:  # of one name, in different folders
            for listing, target in zip(listings, args.target, strict=True):
                listing.name = str(target)
        return compare(args, listings)
    if args.html:
        _write_page(listings, Path(args.html))
    return _print_json(args, listings) if args.json else _show(args, listings)


def _only(listing: Listing, kernel: str | None) -> Listing:
    """The listing with the facts alone of the kernels that were named, in full or in part."""
    from kernellab.machinecode.kernel_names import match_symbols, short_name

    if kernel is None:
        return listing
    names = [one.name for one in listing.facts]
    found = match_symbols(kernel, names)
    if not found:
        known = [short_name(name).removesuffix("<…>") for name in names]
        raise UserError(f"no kernel {kernel!r} in {listing.name}: {nearest(kernel, known)}")
    listing.facts = [one for one in listing.facts if one.name in found]
    return listing


def _show(args: argparse.Namespace, listings: list[Listing]) -> int:
    from kernellab.reporting.terminal import code
    from kernellab.reporting.text.console import console

    out = console()
    what = args.show or "facts"
    for listing in listings:
        if len(listings) > 1:
            out.print(listing.name, style="bold")
        if what == "facts":
            code.show_facts(listing.facts, [*listing.notes, *problems(listing)], out)
        elif what == "explain":
            code.show_explained(explained(listing), out)
        else:
            _print_text(listing, what)
    return 0


def _print_text(listing: Listing, what: str) -> None:
    if what == "sass" and not listing.sass_text:
        raise UserError(f"{listing.name}: no SASS, for {listing.notes[0] if listing.notes else 'it was not assembled'}")
    sys.stdout.write(listing.sass_text if what == "sass" else listing.text)


def problems(listing: Listing) -> list[str]:
    shown = [f"line {one.line} could not be read: {one.message}" for one in listing.problems[:5]]
    more = len(listing.problems) - len(shown)
    return [*shown, f"and {more} more line{'' if more == 1 else 's'}"] if more > 0 else shown


def explained(listing: Listing) -> list[Any]:
    from kernellab.ptxwords.explain import explain_ptx

    if listing.ptx is None:
        raise UserError(
            f"{listing.name} holds no PTX to explain: only PTX is put into words. --show sass shows its code"
        )
    kernels = {one.name for one in listing.facts}
    return [one for one in explain_ptx(listing.ptx) if not one.kernel or one.kernel in kernels]


def _print_json(args: argparse.Namespace, listings: list[Listing]) -> int:
    document: dict[str, Any] = {
        "kernels": [{"file": x.name, **one.to_json()} for x in listings for one in x.facts],
        "notes": [{"file": x.name, "note": note} for x in listings for note in x.notes],
        "problems": [{"file": x.name, "line": one.line, "what": one.message} for x in listings for one in x.problems],
    }
    if args.show == "explain":
        document["lines"] = [{"file": x.name, **asdict(one)} for x in listings for one in explained(x)]
    elif args.show in ("source", "sass"):
        document["texts"] = {x.name: x.sass_text if args.show == "sass" else x.text for x in listings}
    json.dump(document, sys.stdout, indent=1)
    print()
    return 0


def _write_page(listings: list[Listing], path: Path) -> None:
    from kernellab.cli.options import write_to
    from kernellab.reporting.pages.ptx import write_page

    if len(listings) != 1:
        raise UserError("--html writes one file's page: name one file")
    (listing,) = listings
    text = write_page(listing.name, explained(listing), listing.facts, [*listing.notes, *problems(listing)])
    write_to("--html", path, text)


def compare(args: argparse.Namespace, listings: list[Listing]) -> int:
    """Two listings kernel by kernel, as PTX where both have it."""
    from kernellab.codeanalysis.diff import compare_kernels
    from kernellab.reporting.terminal import code
    from kernellab.reporting.text.console import console

    if len(listings) != 2:
        raise UserError("--diff compares two files: klab inspect before.ptx after.ptx --diff")
    left, right = listings
    kind = "ptx" if left.ptx is not None and right.ptx is not None and args.show != "sass" else "sass"
    if kind == "sass" and (left.sass is None or right.sass is None):
        raise UserError("--diff: one file is PTX that was not assembled, the other SASS; compare two of a kind")
    pairs = _paired(left, right)
    found = [compare_kernels(a, b, left.code(a.name, kind), right.code(b.name, kind)) for a, b in pairs]
    if args.json:
        json.dump([_told(one) for one in found], sys.stdout, indent=1)
        print()
        return 0
    out = console()
    for one in found:
        code.show_diff(one, (left.name, right.name), kind, out)
    return 0


def _paired(left: Listing, right: Listing) -> list[tuple[Any, Any]]:
    """Kernels of one name; two files with one kernel each are compared whatever those are called."""
    if len(left.facts) == len(right.facts) == 1:
        return [(left.facts[0], right.facts[0])]
    by_name = {one.name: one for one in right.facts}
    pairs = [(one, by_name[one.name]) for one in left.facts if one.name in by_name]
    if not pairs:
        raise UserError(f"{left.name} and {right.name} have no kernel in common: --kernel names one of several")
    return pairs


def _told(one: Any) -> dict[str, Any]:
    rows = [
        {"kind": row.kind, "left": row.left.text if row.left else None, "right": row.right.text if row.right else None}
        for row in one.rows
    ]
    lists = {name: [asdict(pair) for pair in getattr(one, name)] for name in ("facts", "classes", "opcodes")}
    return {**lists, "rows": rows}
