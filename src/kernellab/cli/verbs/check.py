"""`klab check OP…`: says which implementations of ops are right."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.cli import break_option, measurement, sanitize_option
from kernellab.cli.options import parse_device, require_positive
from kernellab.cli.project import project_text

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser
    from kernellab.record.settings import Settings

SUMMARY = "say which implementations are right"
ORDER = 20


def arguments(parser: Parser) -> None:
    measurement.add_options(parser)
    break_option.add_options(parser)
    parser.add_argument("--declared", action="store_true", help="only the declared cases, no battery")
    sanitize_option.add_options(parser)
    parser.add_argument(
        "--budget",
        type=float,
        metavar="S",
        help="after the battery, search for S seconds in all (default 0: no search)",
    )


def run(args: argparse.Namespace) -> int:
    if break_option.is_given(args):
        return break_option.run(args, read_settings(args))
    return measurement.run(args, read_settings)


def read_settings(args: argparse.Namespace) -> Settings:
    # First: of `--sanitize gelu` argparse takes the op for a tool, and the op would be reported as missing.
    sanitizers = sanitize_option.read_sanitizers(args, parse_device(args.device or project_text("device")))
    # Sizes and options select cases: those are checked without the battery.
    particular = args.shape or args.dims or args.opt or args.declared
    stages = ["check", *([] if particular else ["battery"]), *(["sanitize"] if sanitizers else [])]
    settings = dataclasses.replace(measurement.read_settings(args, stages), sanitizers=sanitizers)
    if args.budget is not None:
        settings = dataclasses.replace(settings, budget_s=_read_budget(args.budget, stages))
    return settings


def _read_budget(value: float, stages: list[str]) -> float:
    if "battery" not in stages:
        raise UserError("--budget searches beyond the battery: leave out sizes, options and --declared")
    if importlib.util.find_spec("hypothesis") is None:
        raise UserError("--budget needs Hypothesis: pip install 'kernellab[search]'")
    return require_positive("--budget", value) if value else 0.0
