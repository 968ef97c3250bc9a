"""`klab merge RUN… --out DIR`: joins runs of one kind of machine into one run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser

SUMMARY = "join runs of one kind of machine into one"
ORDER = 80


def arguments(parser: Parser) -> None:
    parser.add_argument("run", nargs="*", metavar="RUN", help="the folders of the runs")
    parser.add_argument("--out", metavar="DIR", help="the folder of the joined run")


def run(args: argparse.Namespace) -> int:
    from kernellab.record.merge import merge

    if len(args.run) < 2:
        raise UserError("fewer than two runs to join: klab merge runs/a runs/b --out runs/both")
    if not args.out:
        raise UserError("no folder for the joined run: --out DIR names it")
    record = merge([Path(run) for run in args.run], Path(args.out), ["klab", *sys.argv[1:]])
    unfinished = "" if record["complete"] else "; not all of them finished"
    print(f"{args.out}: {len(record['results'])} results of {len(args.run)} runs{unfinished}")
    return 0
