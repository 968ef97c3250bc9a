"""`klab curves RUN`: the sweeps of a record as tables, charts and files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser

SUMMARY = "draw the sweeps of a run again"
ORDER = 70


def arguments(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, its run.json or its journal")
    parser.add_argument("--out", metavar="DIR", help="the folder for the files (default: the run's own)")


def run(args: argparse.Namespace) -> int:
    from kernellab.record import verdict
    from kernellab.record.reading import load
    from kernellab.reporting.charts import files
    from kernellab.reporting.terminal import results
    from kernellab.reporting.text.console import console

    source = Path(args.run)
    record = verdict.derive(load(source))
    folder = Path(args.out) if args.out else source if source.is_dir() else source.parent
    written = files.write(record, folder)
    if not written:
        raise UserError(f"{source} holds no sweep: three or more sizes of one dim, timed")
    out = console()
    results.show_sweeps(record, out, more_than=0)
    results.show_files(written, str(folder), out)
    return 0
