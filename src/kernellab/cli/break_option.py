"""`klab check --break`: its options, and starting the debugger."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.cli.options import refuse_options

if TYPE_CHECKING:
    from kernellab.record.settings import Settings


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--break",
        dest="break_line",
        nargs="?",
        const="",
        metavar="LINE",
        help="stop in a Triton kernel, in pdb, at a line: 12 or kernels.py:12",
    )
    parser.add_argument(
        "--break-at", dest="break_program", metavar="I,J", help="with --break: only in this program of the grid"
    )


def is_given(args: argparse.Namespace) -> bool:
    if args.break_line is None:
        refuse_options(args, ["break_program"], "is an option of --break: add --break")
        return False
    # Now: of `--break gelu` argparse takes the op for a line, and the op would be reported as missing.
    _parse_line(args.break_line)
    return True


def run(args: argparse.Namespace, settings: Settings) -> int:
    for name in ("out", "resume", "json", "csv", "cells"):
        if name in args.given:
            raise UserError(f"--break debugs one case and keeps no record: leave out {args.given[name]}")
    if settings.device.startswith("cuda"):
        raise UserError("--break runs in Triton's interpreter, on the CPU: leave out --device, or write --device cpu")
    file, line = _parse_line(args.break_line)
    program = _parse_program(args.break_program)

    from kernellab.running.programs.debugged_op import debug

    return debug(settings, file=file, line=line, program=program)


def _parse_line(text: str) -> tuple[str, int | None]:
    """File and line of `12`, `kernels.py:12` or an empty text."""
    if not text:
        return "", None
    parts = re.fullmatch(r"(?:(.+):)?(\d+)", text)
    if not parts:
        raise UserError(
            f"cannot read --break {text!r}: write a line, 12 or kernels.py:12, and name the op before --break"
        )
    return parts[1] or "", int(parts[2])


def _parse_program(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d+(,\d+){0,2}", text):
        raise UserError(f"cannot read --break-at {text!r}: write a program of the grid, 2 or 2,0")
    return tuple(map(int, text.split(",")))
