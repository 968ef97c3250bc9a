"""`klab inspect FILE…`: reads, explains and compares files of machine code. Needs no GPU and executes nothing."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError, nearest
from kernellab.cli.options import choose, print_json, refuse_options, write_file

if TYPE_CHECKING:
    from kernellab.codeanalysis.code_files import Listing
    from kernellab.codeanalysis.diff import KernelDiff
    from kernellab.codeanalysis.facts import KernelFacts
    from kernellab.ptxwords.explain import ExplainedLine

_SHOW_CHOICES = ("facts", "explain", "source", "sass")
_OP_OPTIONS = ("arch", "impl", "shape", "dtype", "opt", "passes", "out", "export", "timings")
_MOST_PROBLEMS = 5  # shown; the others are counted


def run(args: argparse.Namespace) -> int:
    from kernellab.codeanalysis.code_files import read_code_file

    if args.dims:
        raise UserError(f"--{next(iter(args.dims))} is a dim of an op, and {args.target[0]} is compiled already")
    refuse_options(args, _OP_OPTIONS, f"belongs to an op, and {args.target[0]} is compiled already: leave it out")
    show = choose("--show", args.show or "facts", _SHOW_CHOICES)
    listings = [_keep_kernels(read_code_file(Path(target)), args.kernel) for target in args.target]
    if args.diff is not None:
        if len({listing.name for listing in listings}) == 1:  # files of the same name in different folders
            for listing, target in zip(listings, args.target, strict=True):
                listing.name = str(target)
        return compare(args, listings)
    if args.html:
        _write_page(listings, Path(args.html))
    if args.json:
        print_json(_document(show, listings))
    else:
        _print(show, listings)
    return 0


def _keep_kernels(listing: Listing, kernel: str | None) -> Listing:
    """The listing with the facts of the kernels that `--kernel` names, in full or in part."""
    from kernellab.machinecode.kernel_names import match_symbols, short_name

    if kernel is None:
        return listing
    names = [facts.name for facts in listing.facts]
    matching = match_symbols(kernel, names)
    if not matching:
        short_names = [short_name(name).removesuffix("<…>") for name in names]
        raise UserError(f"no kernel {kernel!r} in {listing.name}: {nearest(kernel, short_names)}")
    listing.facts = [facts for facts in listing.facts if facts.name in matching]
    return listing


def _print(show: str, listings: list[Listing]) -> None:
    from kernellab.reporting.terminal import code
    from kernellab.reporting.text.console import console

    out = console()
    for listing in listings:
        if len(listings) > 1:
            out.print(listing.name, style="bold")
        if show == "facts":
            code.show_facts(listing.facts, [*listing.notes, *problem_lines(listing)], out)
        elif show == "explain":
            code.show_explained(explain_lines(listing), out)
        else:
            _print_text(show, listing)


def _print_text(show: str, listing: Listing) -> None:
    if show == "sass" and not listing.sass_text:
        reason = listing.notes[0] if listing.notes else "it was not assembled"
        raise UserError(f"{listing.name} has no SASS: {reason}")
    sys.stdout.write(listing.sass_text if show == "sass" else listing.text)


def problem_lines(listing: Listing) -> list[str]:
    """The first lines that could not be read, and the number of the others."""
    shown = [
        f"line {problem.line} could not be read: {problem.message}" for problem in listing.problems[:_MOST_PROBLEMS]
    ]
    more = len(listing.problems) - len(shown)
    return [*shown, f"and {more} more line{'' if more == 1 else 's'}"] if more > 0 else shown


def explain_lines(listing: Listing) -> list[ExplainedLine]:
    """The lines of its PTX, explained: only those of kernels that the listing has facts of."""
    from kernellab.ptxwords.explain import explain_ptx

    if listing.ptx is None:
        raise UserError(f"{listing.name} has no PTX, and only PTX can be explained: --show sass shows its code")
    kernels = {facts.name for facts in listing.facts}
    return [line for line in explain_ptx(listing.ptx) if not line.kernel or line.kernel in kernels]


def _document(show: str, listings: list[Listing]) -> dict[str, object]:
    document: dict[str, object] = {
        "kernels": [{"file": listing.name, **facts.to_json()} for listing in listings for facts in listing.facts],
        "notes": [{"file": listing.name, "note": note} for listing in listings for note in listing.notes],
        "problems": [
            {"file": listing.name, "line": problem.line, "what": problem.message}
            for listing in listings
            for problem in listing.problems
        ],
    }
    if show == "explain":
        document["lines"] = [{"file": x.name, **asdict(line)} for x in listings for line in explain_lines(x)]
    elif show in ("source", "sass"):
        document["texts"] = {x.name: x.sass_text if show == "sass" else x.text for x in listings}
    return document


def _write_page(listings: list[Listing], path: Path) -> None:
    from kernellab.reporting.pages.ptx import write_page

    if len(listings) != 1:
        raise UserError("--html writes the page of one file: name one file")
    (listing,) = listings
    notes = [*listing.notes, *problem_lines(listing)]
    write_file("--html", path, write_page(listing.name, explain_lines(listing), listing.facts, notes))


def compare(args: argparse.Namespace, listings: list[Listing]) -> int:
    """Compares two listings kernel by kernel, as PTX where both have it."""
    from kernellab.codeanalysis.diff import compare_kernels
    from kernellab.reporting.terminal import code
    from kernellab.reporting.text.console import console

    if len(listings) != 2:
        raise UserError("--diff compares two files: klab inspect before.ptx after.ptx --diff")
    left, right = listings
    kind = "ptx" if left.ptx is not None and right.ptx is not None and args.show != "sass" else "sass"
    if kind == "sass" and (left.sass is None or right.sass is None):
        raise UserError(
            "--diff: one file is PTX that was not assembled, the other is SASS: compare two files of the same kind"
        )
    diffs = [compare_kernels(a, b, left.code(a.name, kind), right.code(b.name, kind)) for a, b in _pair(left, right)]
    if args.json:
        print_json([_diff_document(item) for item in diffs])
        return 0
    out = console()
    for item in diffs:
        code.show_diff(item, (left.name, right.name), kind, out)
    return 0


def _pair(left: Listing, right: Listing) -> list[tuple[KernelFacts, KernelFacts]]:
    """Kernels of the same name. Two files with one kernel each are compared whatever the names are."""
    if len(left.facts) == len(right.facts) == 1:
        return [(left.facts[0], right.facts[0])]
    by_name = {facts.name: facts for facts in right.facts}
    pairs = [(facts, by_name[facts.name]) for facts in left.facts if facts.name in by_name]
    if not pairs:
        raise UserError(f"{left.name} and {right.name} have no kernel in common: --kernel names one of several")
    return pairs


def _diff_document(diff: KernelDiff) -> dict[str, object]:
    rows = [
        {"kind": row.kind, "left": row.left.text if row.left else None, "right": row.right.text if row.right else None}
        for row in diff.rows
    ]
    lists = {name: [asdict(pair) for pair in getattr(diff, name)] for name in ("facts", "classes", "opcodes")}
    return {**lists, "rows": rows}
