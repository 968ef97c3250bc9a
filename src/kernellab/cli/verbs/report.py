"""`klab report RUN…`: one HTML file with everything that runs show."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.cli import report_file
from kernellab.cli.options import print_json

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser

SUMMARY = "write what a run shows as one HTML file"
ORDER = 75


def arguments(parser: Parser) -> None:
    parser.add_argument("run", nargs="*", metavar="RUN", help="a run's folder, its run.json or its journal")
    parser.add_argument("--out", metavar="FILE", help="the file (default: report.html in the run's folder)")
    parser.add_argument("--json", action="store_true", help="print the record with its verdicts as one JSON document")


def run(args: argparse.Namespace) -> int:
    if not args.run:
        raise UserError("no run named: klab report runs/WHEN-NAME")
    sources = [Path(name) for name in args.run]
    runs = report_file.load(sources)
    if args.json:
        print_json(report_file.json_document(runs))
        return 0
    missing = report_file.missing_packages()
    if missing:
        raise UserError(f"report.html needs {missing}: {report_file.remedy(args.run)}")
    file = Path(args.out) if args.out else report_file.default_path(sources)
    report_file.write(runs, file)
    print(f"report: {file}")
    return 0
