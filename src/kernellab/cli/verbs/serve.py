"""`klab serve`: the history in a browser, on this machine alone."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser

SUMMARY = "show the history in a browser: all runs, reports, comparisons, a run in progress"
ORDER = 95
_NEEDED = ("anyio", "starlette", "uvicorn", "jinja2", "plotly")


def arguments(parser: Parser) -> None:
    parser.add_argument("--runs", metavar="DIR", help="the folder of the runs (default: runs)")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="default: one that is free")
    parser.add_argument("--open", action="store_true", help="open the page in the system's browser")


def run(args: argparse.Namespace) -> int:
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise UserError(f"klab serve needs {name} ({error}): pip install 'kernellab[serve]'") from None
    from kernellab.cli.project import project_text
    from kernellab.server.start import serve

    folder = Path(args.runs or project_text("runs") or "runs")
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: klab run makes one, --runs DIR names another")
    serve(folder, args.port, open_browser=args.open)
    return 0
