"""`klab bench OP…`: times the implementations of ops that are right."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernellab.cli import timed_measurement

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser

SUMMARY = "time the implementations that are right"
ORDER = 30


def arguments(parser: Parser) -> None:
    timed_measurement.add_options(parser)


def run(args: argparse.Namespace) -> int:
    return timed_measurement.run(args)
