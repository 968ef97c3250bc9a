"""`klab curves RUN`: the sweeps of a record as tables, charts and files, wherever it was measured."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernellab.base.errors import UserError


def arguments(sub: argparse.ArgumentParser, verb: str) -> None:
    sub.add_argument("run", metavar="RUN", help="a run's folder, its run.json or its journal")
    sub.add_argument("--out", metavar="DIR", help="the folder for the files (default: the run's own)")


def run(args: argparse.Namespace, rest: list[str]) -> int:
    from kernellab.cli.options import dims_in
    from kernellab.record import verdict
    from kernellab.record.reading import load
    from kernellab.reporting.charts import files as curves
    from kernellab.reporting.terminal import results as terminal
    from kernellab.reporting.text.console import console

    dims_in(rest)
    source = Path(args.run)
    record = verdict.derive(load(source))
    folder = Path(args.out) if args.out else source if source.is_dir() else source.parent
    written = curves.write(record, folder)
    if not written:
        raise UserError(f"{source} holds no sweep: three or more sizes of one dim, timed")
    out = console()
    terminal.show_sweeps(record, out, more_than=0)
    terminal.show_files(written, str(folder), out)
    return 0
