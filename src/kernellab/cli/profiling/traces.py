"""`klab profile --open TRACE…` and `--compare A B`: reads traces that exist already, and runs nothing."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from kernellab.base.errors import UserError
from kernellab.cli.options import print_json
from kernellab.cli.run_folder import create_folder

if TYPE_CHECKING:
    from kernellab.traces.trace import Trace

_ENDING = re.compile(r"(\.pt)?(\.trace)?\.(json|sqlite)(\.gz)?$")  # of a trace's file name


class TableOptions(TypedDict):
    sort: str | None
    rows: int
    name_width: int


def table_options(args: argparse.Namespace) -> TableOptions:
    return {"sort": args.sort, "rows": args.rows, "name_width": args.name_width}


def run(args: argparse.Namespace) -> int:
    if args.dims or args.script_arguments or args.module:
        raise UserError("--open and --compare read traces and run nothing: leave out dims, -m and arguments after --")
    if not args.target or (args.compare and len(args.target) != 2):
        raise UserError("klab profile --compare A B takes two traces" if args.compare else "--open: name a trace")
    return _compare(args) if args.compare else _open(args)


def _open(args: argparse.Namespace) -> int:
    from kernellab.analysis.document import analyse
    from kernellab.analysis.ranks import compare_ranks
    from kernellab.reporting.profiles import ranks
    from kernellab.reporting.profiles.summary import lines
    from kernellab.traces.files import read_all

    traces = read_all([Path(name) for name in args.target])
    documents = [analyse(trace) for trace in traces]
    across_ranks = compare_ranks(traces) if len(traces) > 1 else None
    pictures = _draw(args, traces)
    if args.json:
        profiles = [{"document": document} for document in documents]
        several = {"profiles": profiles, "ranks": across_ranks}
        print_json({**documents[0], **(several if across_ranks else {}), "pictures": pictures})
        return 0
    for number, document in enumerate(documents):
        if across_ranks:
            print(f"rank {across_ranks['ranks'][number]['rank']}")
        for line in lines(document, **table_options(args)):
            print(line)
        print()
    for line in ranks.lines(across_ranks) if across_ranks else []:
        print(line)
    if pictures:
        print(f"pictures: {', '.join(pictures)}")
    return 0


def _draw(args: argparse.Namespace, traces: Sequence[Trace]) -> list[str]:
    """Draws the traces into `--out`. Without it nothing is written: the folder of the traces may not be the user's."""
    if not args.out:
        return []
    from kernellab.reporting.pages import pictures

    folder = create_folder(args.out)
    names = [_ENDING.sub("", Path(name).name) for name in args.target]
    unique = [name if names.count(name) == 1 else f"{name}-{number}" for number, name in enumerate(names)]
    return [
        str(path)
        for trace, name in zip(traces, unique, strict=True)
        for path in pictures.draw(trace, folder / f"{name}.json", name)
    ]


def _compare(args: argparse.Namespace) -> int:
    from kernellab.analysis.comparison import compare
    from kernellab.reporting.profiles.comparison import lines
    from kernellab.traces.files import read

    before, after = (read(Path(name)) for name in args.target)
    document = compare(before, after)
    if args.json:
        print_json(document)
        return 0
    for line in lines(document, rows=args.rows, name_width=args.name_width):
        print(line)
    return 0
