"""`klab inspect`: the machine code of an op's ways."""

from __future__ import annotations

import argparse

from kernellab.cli import inspect_op


def arguments(sub: argparse.ArgumentParser, verb: str) -> None:
    sub.add_argument("target", nargs="+", help="an op's name, a file (ops.py, ops.py:name) or package.module:op")
    sub.add_argument("--json", action="store_true", help="print what was found as one JSON document")
    sub.add_argument("--show", metavar="WHAT", help=", ".join(inspect_op.SHOWN))
    inspect_op.arguments(sub)


def run(args: argparse.Namespace, rest: list[str]) -> int:
    return inspect_op.run(args, rest)
