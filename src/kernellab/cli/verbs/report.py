"""`klab report RUN…`: one HTML file with everything that runs show."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.cli import report_file
from kernellab.reporting.html.packages import MissingPackages

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser
    from kernellab.reporting.report.parts.section import Run

SUMMARY = "write what a run shows as one HTML file"
ORDER = 75


def arguments(parser: Parser) -> None:
    parser.add_argument("run", nargs="*", metavar="RUN", help="a run's folder, its run.json or its journal")
    parser.add_argument(
        "--out", metavar="FILE", help="the file, or - to print (default: report.html in the run's folder)"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the record with its verdicts as one JSON document, or write it to --out",
    )


def run(args: argparse.Namespace) -> int:
    if not args.run:
        raise UserError("no run named: klab report runs/WHEN-NAME")
    sources = report_file.different_runs([Path(name) for name in args.run])
    printed = args.out == "-" or (args.json and not args.out)
    file = Path(args.out) if args.out else report_file.default_path(sources)
    if not printed:
        report_file.refuse_sources(file, sources)
    runs = report_file.load(sources)
    text = _json(runs) if args.json else _html(runs, args.run)
    if printed:
        print(text, end="" if text.endswith("\n") else "\n")
        return 0
    report_file.write_text(text, file)
    print(f"{'record' if args.json else 'report'}: {file}")
    return 0


def _json(runs: Sequence[Run]) -> str:
    return json.dumps(report_file.json_document(runs), indent=1, allow_nan=False) + "\n"


def _html(runs: Sequence[Run], names: Sequence[str]) -> str:
    try:
        text = report_file.html_document(runs)
    except MissingPackages as missing:
        raise UserError(f"report.html needs {missing.needs}: {report_file.remedy(missing, names)}") from None
    return text.encode(errors="replace").decode()
