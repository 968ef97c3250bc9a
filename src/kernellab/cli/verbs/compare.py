"""`klab compare A B`: what became faster, slower or wrong from one run to another."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.base.text import plural
from kernellab.cli.options import add_json_option, parse_precision, print_json, write_file
from kernellab.cli.project import project_text
from kernellab.cli.run_folder import display_path

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser
    from kernellab.comparison.compare import Comparison, Side

SUMMARY = "say what became faster, slower or wrong from one run to another"
ORDER = 76


def arguments(parser: Parser) -> None:
    parser.usage = "klab compare BEFORE AFTER [options] | klab compare AFTER… --against BEFORE…|BRANCH|COMMIT"
    parser.add_argument("run", nargs="*", metavar="RUN", help="the run before and the run after; folders or run.json")
    parser.add_argument(
        "--against",
        nargs="+",
        metavar="BEFORE",
        help="the runs before, or a branch or commit in the history; the other runs named are those after",
    )
    parser.add_argument("--precision", metavar="P", help="times that differ by less are the same (default 0.5%%)")
    parser.add_argument(
        "--across-machines", action="store_true", help="compare runs of different machines, which is refused otherwise"
    )
    parser.add_argument("--verbose", action="store_true", help="also show the times that are the same")
    add_json_option(parser)
    parser.add_argument("--markdown", metavar="FILE", help="write it as Markdown for a pull request; - prints it")
    parser.add_argument("--html", metavar="FILE", help="write it as a page")


def run(args: argparse.Namespace) -> int:
    from kernellab.comparison.compare import PRECISION, compare

    if args.json and args.markdown == "-":
        raise UserError("--json and --markdown - both print to standard output: name a file for one of them")
    precision = PRECISION if args.precision is None else parse_precision(args.precision)
    before, after = _sides(args)
    comparison = compare(before, after, precision=precision, across_machines=args.across_machines)
    _show(args, comparison)
    return comparison.exit_code


def _sides(args: argparse.Namespace) -> tuple[Side, Side]:
    if args.against:
        if not args.run:
            raise UserError("no run to compare: klab compare runs/after --against runs/before")
        return _load([_find(name, args.run[0]) for name in args.against]), _load(args.run)
    if len(args.run) != 2:
        raise UserError(
            f"{plural(len(args.run), 'run')} named, two are compared: klab compare runs/before runs/after. "
            "Several on a side: klab compare AFTER… --against BEFORE…"
        )
    return _load(args.run[:1]), _load(args.run[1:])


def _find(name: str, like: str) -> str:
    """A run's path, or that of the newest run of a branch or commit that is comparable with the run `like`."""
    from kernellab.history.baseline import baseline_run

    if Path(name).exists():
        return name
    return display_path(baseline_run(name, Path(like), Path(project_text("runs") or "runs")))


def _load(names: list[str]) -> Side:
    from kernellab.comparison.compare import Side
    from kernellab.record.reading import load

    return Side(", ".join(names), [load(Path(name)) for name in names])


def _show(args: argparse.Namespace, comparison: Comparison) -> None:
    from kernellab.reporting.comparisons import markdown, page, terminal
    from kernellab.reporting.text.console import console

    if args.html:
        write_file("--html", Path(args.html), page.document(comparison))
    if args.markdown and args.markdown != "-":
        write_file("--markdown", Path(args.markdown), markdown.document(comparison))
    if args.markdown == "-":
        print(markdown.document(comparison), end="")
    elif args.json:
        from kernellab.comparison.document import to_json

        print_json(to_json(comparison))
    else:
        terminal.show(comparison, console(), verbose=args.verbose)
