"""`klab check --break`: what it takes on the command line."""

from __future__ import annotations

import argparse
import re
from typing import Any

from kernellab.base.errors import UserError


def arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--break", dest="stop", nargs="?", const="", metavar="LINE", help="stop in a Triton kernel, in pdb"
    )
    sub.add_argument("--break-at", dest="stop_at", metavar="I,J", help="with --break: in this program of the grid")


def asked_for(args: argparse.Namespace) -> bool:
    if args.verb != "check" or args.stop is args.stop_at is None:
        return False
    if args.stop is None:
        raise UserError("--break-at says in which program to stop: add --break")
    _place(args.stop)  # before anything else is missed: `--break gelu` takes the op for a line
    return True


def run(args: argparse.Namespace, settings: dict[str, Any]) -> int:
    for name in ("out", "resume", "json", "cells"):
        if getattr(args, name):
            raise UserError(f"--break debugs one case and keeps no record: leave out --{name}")
    if settings["device"].startswith("cuda"):
        raise UserError("--break runs in Triton's interpreter, on the CPU: leave out --device, or --device cpu")
    file, line = _place(args.stop)
    program = _program(args.stop_at)

    from kernellab.record.settings import Settings
    from kernellab.running.programs.debugged_op import debug

    return debug(Settings(**settings), file=file, line=line, program=program)


def _place(text: str) -> tuple[str, int | None]:
    """`12`, `kernels.py:12`, or nothing at all."""
    if not text:
        return "", None
    found = re.fullmatch(r"(?:(.+):)?(\d+)", text)
    if not found:
        raise UserError(f"cannot read --break {text!r}: a line, 12 or kernels.py:12; the op is named before it")
    return found[1] or "", int(found[2])


def _program(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d+(,\d+){0,2}", text):
        raise UserError(f"cannot read --break-at {text!r}: a program of the grid, 2 or 2,0")
    return tuple(map(int, text.split(",")))
