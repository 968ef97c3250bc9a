"""`klab history [OP]`: how the times of implementations changed from run to run, and at which commits."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError, nearest
from kernellab.cli import history_pruning
from kernellab.cli.options import add_json_option, choose, print_json, refuse_options, split_commas, write_file
from kernellab.cli.run_folder import display_path, runs_folder

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser
    from kernellab.history.index import Index
    from kernellab.history.queries import Filters

SUMMARY = "show how times changed from run to run, and at which commits"
ORDER = 76


def arguments(parser: Parser) -> None:
    parser.add_argument("op", nargs="?", help="an op's name, as runs have it (default: all ops and the latest runs)")
    parser.add_argument("--impl", metavar="A,B", help="only these implementations; shell patterns too: 'triton*'")
    parser.add_argument("--dtype", metavar="float32,…", help="only these dtypes")
    parser.add_argument("--machine", metavar="TEXT", help="only machines whose name contains this: H200")
    parser.add_argument("--branch", metavar="NAME", help="only runs of this branch")
    parser.add_argument("--since", metavar="WHEN", help="only runs since then: 2026-01-31, or 30d, 12h, 6w ago")
    parser.add_argument("--all", action="store_true", help="every timer and cache state, not only the main series")
    parser.add_argument("--runs", metavar="DIR", help="the folder of the runs (default: runs)")
    parser.add_argument("--rebuild", action="store_true", help="read every run again")
    parser.add_argument("--export", metavar="FORMAT", help="every measurement as csv or json")
    parser.add_argument("--out", metavar="FILE", help="with --export: write to this file")
    add_json_option(parser)
    history_pruning.add_options(parser)


def run(args: argparse.Namespace) -> int:
    from kernellab.history.index import Index

    if not args.export:
        refuse_options(args, ["out"], "names the file of an export: --export csv")
    if history_pruning.is_given(args):
        return history_pruning.run(args, parse_time("--older", args.older), lambda: _folder(args))
    filters = _filters(args)
    with Index(_folder(args)) as index:
        if args.rebuild:
            began = time.perf_counter()
            count = index.rebuild().read
            print(f"read {count} runs in {time.perf_counter() - began:.1f} s", file=sys.stderr)
        else:
            index.refresh()
        if args.export:
            _export(args, index, filters)
        else:
            _show(args, index, filters)
    return 0


def _folder(args: argparse.Namespace) -> Path:
    folder = Path(args.runs) if args.runs else runs_folder()
    if not folder.is_dir():
        hint = "" if args.runs else "; klab run OP makes a run, and --runs DIR names another folder"
        raise UserError(f"no runs: there is no folder {folder}{hint}")
    return folder


def _filters(args: argparse.Namespace) -> Filters:
    from kernellab.declaration.case import parse_dtype
    from kernellab.history.queries import Filters

    return Filters(
        op=args.op,
        impls=tuple(split_commas(args.impl)),
        dtypes=tuple(parse_dtype(name) for name in split_commas(args.dtype)),
        machine=args.machine,
        branch=args.branch,
        since=parse_time("--since", args.since),
        main=not (args.all or args.export),
    )


_SECONDS = {"h": 3600, "d": 86400, "w": 7 * 86400}


def parse_time(option: str, text: str | None) -> float | None:
    """A date, or a time ago, in seconds since 1970."""
    if text is None:
        return None
    ago = re.fullmatch(r"(\d{1,5})([hdw])", text)
    if ago:
        return time.time() - int(ago[1]) * _SECONDS[ago[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UserError(f"cannot read {option} {text!r}: write 2026-01-31, or 30d for 30 days ago") from None


def _export(args: argparse.Namespace, index: Index, filters: Filters) -> None:
    from kernellab.history.document import COLUMNS, rows

    found = list(rows(index, filters))
    if choose("--export", args.export, ("csv", "json")) == "json":
        text = json.dumps(found, indent=1, allow_nan=False) + "\n"
    else:
        from kernellab.reporting.exports.csv_text import csv_text

        text = csv_text(COLUMNS, found)
    if args.out:
        write_file("--out", Path(args.out), text)
        print(f"{args.out}: {len(found)} measurements")
    else:
        sys.stdout.write(text)


def _show(args: argparse.Namespace, index: Index, filters: Filters) -> None:
    from kernellab.history.document import document
    from kernellab.history.queries import all_runs, failures
    from kernellab.history.trends import trends
    from kernellab.reporting.terminal import history as report
    from kernellab.reporting.text.console import console

    found, failed = trends(index, filters), failures(index, filters)
    if args.op and not (found or failed):
        raise UserError(_why_nothing(args, index))
    if args.json:
        print_json(document(index, found, failed))
    elif args.op:
        report.show_trends(found, failed, console())
    else:
        report.show_overview(all_runs(index), found, failed, index.runs, display_path(index.runs), console())


def _why_nothing(args: argparse.Namespace, index: Index) -> str:
    from kernellab.history.queries import Filters, points

    ops = {point.measurement.op for point in points(index, Filters())}
    if args.op in ops:
        return f"no run of {args.op} in {display_path(index.runs)} that these options ask for"
    return f"no time of {args.op} in {display_path(index.runs)}: {nearest(args.op, ops)}"
