"""`klab check --sanitize`: what it takes on the command line, and what it cannot do without."""

from __future__ import annotations

import argparse

from kernellab.base.errors import UserError, nearest
from kernellab.machine import tools


def arguments(sub: argparse.ArgumentParser) -> None:
    about = "run under NVIDIA's compute-sanitizer too: all its tools, or memcheck,racecheck,initcheck,synccheck"
    sub.add_argument("--sanitize", nargs="?", const=",".join(tools.SANITIZERS), metavar="TOOLS", help=about)


def asked_for(args: argparse.Namespace, device: str) -> list[str]:
    """The tools to run; refused at once where none can."""
    if args.sanitize is None:
        return []
    asked = [name.strip() for name in args.sanitize.split(",")]
    for name in asked:
        if name not in tools.SANITIZERS:
            raise UserError(f"--sanitize {name}: {nearest(name, tools.SANITIZERS)}; the op is named before it")
    if device == "cpu":
        raise UserError("--sanitize needs an NVIDIA GPU: leave out --device cpu")
    if not tools.has_gpu():
        raise UserError("--sanitize needs an NVIDIA GPU: there is none here. klab doctor says what was found")
    missing = tools.compute_sanitizer_missing()
    if missing is not None:
        raise UserError(f"--sanitize: {missing}")
    return [name for name in tools.SANITIZERS if name in asked]
