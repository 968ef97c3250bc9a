"""`klab merge RUN… --out DIR`: runs of one kind of machine, as one run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernellab.base.errors import UserError


def arguments(sub: argparse.ArgumentParser, verb: str) -> None:
    sub.add_argument("run", nargs="*", metavar="RUN", help="the folders of the runs")
    sub.add_argument("--out", metavar="DIR", help="the folder of the joined run")


def run(args: argparse.Namespace, rest: list[str]) -> int:
    from kernellab.cli.options import dims_in
    from kernellab.record.merge import merge

    dims_in(rest)
    if len(args.run) < 2:
        raise UserError("fewer than two runs to join: klab merge runs/a runs/b --out runs/both")
    if not args.out:
        raise UserError("no folder for the joined run: --out DIR names it")
    record = merge([Path(run) for run in args.run], Path(args.out), ["klab", *sys.argv[1:]])
    unfinished = "" if record["complete"] else "; not all of them finished"
    print(f"{args.out}: {len(record['results'])} results of {len(args.run)} runs{unfinished}")
    return 0
