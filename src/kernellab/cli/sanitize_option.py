"""`klab check --sanitize`: which tools of compute-sanitizer it names, and what they need."""

from __future__ import annotations

import argparse

from kernellab.base.errors import UserError, nearest
from kernellab.cli.options import split_commas
from kernellab.machine import tools


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sanitize",
        nargs="?",
        const=",".join(tools.SANITIZERS),
        metavar="TOOLS",
        help=f"also run under NVIDIA's compute-sanitizer: all tools, or some of {','.join(tools.SANITIZERS)}",
    )


def read_sanitizers(args: argparse.Namespace, device: str) -> list[str]:
    """The tools to run, in their usual order; a UserError where none can run."""
    if args.sanitize is None:
        return []
    names = split_commas(args.sanitize)
    for name in names:
        if name not in tools.SANITIZERS:
            raise UserError(f"--sanitize {name}: {nearest(name, tools.SANITIZERS)}; name the op before --sanitize")
    if device == "cpu":
        raise UserError("--sanitize needs an NVIDIA GPU: leave out --device cpu")
    if not tools.has_gpu():
        raise UserError("--sanitize needs an NVIDIA GPU: there is none here. klab doctor lists what was found")
    missing = tools.compute_sanitizer_missing()
    if missing is not None:
        raise UserError(f"--sanitize: {missing}")
    return [name for name in tools.SANITIZERS if name in names]
