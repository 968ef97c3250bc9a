"""`klab run OP…`: checks and times the implementations of ops, and says which to use."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernellab.cli import timed_measurement

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser

SUMMARY = "check every implementation of an op, time those that are right, say which to use"
ORDER = 10


def arguments(parser: Parser) -> None:
    timed_measurement.add_options(parser)


def run(args: argparse.Namespace) -> int:
    return timed_measurement.run(args)
