"""The job of `klab run` and `klab bench`: a measurement that also times, and the options of timing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.cli import measurement
from kernellab.cli.options import PASSES, choose_several, parse_precision, require_positive, split_commas

if TYPE_CHECKING:
    import argparse

    from kernellab.activity.documents import TunedJson
    from kernellab.cli.parser import Parser
    from kernellab.record.settings import Settings

_QUICK_ROUNDS, _QUICK_SECONDS = 8, 0.2


def add_options(parser: Parser) -> None:
    from kernellab.timing.timers import timer_help

    measurement.add_options(parser)
    group = parser.add_argument_group("timing")
    group.add_argument(
        "--seconds", type=float, metavar="S", help="time to spend on timing each implementation (default 1; CPU 3)"
    )
    group.add_argument("--rounds", type=int, metavar="N", help="at least N rounds (default 10)")
    group.add_argument("--precision", metavar="P", help="times closer than this are the same (default 0.5%%)")
    group.add_argument(
        "--pass",
        dest="passes",
        metavar="P",
        help="forward, backward, both; several separated by commas (default forward)",
    )
    group.add_argument("--timer", metavar="T", help=timer_help())
    group.add_argument("--cache", metavar="C", help="cold, warm, or cold,warm (default cold)")
    group.add_argument("--energy", action="store_true", help="also measure the energy of a call, where a counter is")
    group.add_argument("--panel", action="store_true", help="all timers side by side, and what limits the speed")
    group.add_argument("--pin", metavar="RUN", help="use what Triton's autotuners chose in an earlier run")
    group.add_argument("--only-times", action="store_true", help="measure no ceilings and run no profiler")
    group.add_argument("--refresh-ceilings", action="store_true", help="measure copy bandwidth and matmul rate again")


def run(args: argparse.Namespace) -> int:
    return measurement.run(args, read_settings)


def read_settings(args: argparse.Namespace) -> Settings:
    from kernellab.timing.timers import TIMERS

    settings = measurement.read_settings(args, ["check", "time"])
    profiled = [name for name, timer in TIMERS.items() if timer.needs_profiler]
    if args.only_times and (args.panel or set(profiled) & set(split_commas(args.timer))):
        raise UserError(
            f"--only-times leaves out the profiler, which --panel and these timers need: {', '.join(profiled)}"
        )
    if args.energy and args.timer and set(split_commas(args.timer)) <= set(profiled):
        raise UserError("--energy is measured after rounds, and these timers have none: add one that has, events")
    settings = dataclasses.replace(
        settings,
        panel=args.panel,
        only_times=args.only_times,
        refresh_ceilings=args.refresh_ceilings,
        energy=args.energy,
    )
    if args.precision is not None:
        settings = dataclasses.replace(settings, precision=parse_precision(args.precision))
    if args.passes is not None:
        settings = dataclasses.replace(settings, passes=choose_several("--pass", args.passes, PASSES))
    if args.timer is not None:
        settings = dataclasses.replace(settings, timers=split_commas(args.timer))
    if args.cache is not None:
        settings = dataclasses.replace(settings, caches=choose_several("--cache", args.cache, ("cold", "warm")))
    if args.pin is not None:
        settings = dataclasses.replace(settings, pins=_read_pins(args.pin))
    if args.quick:
        settings = dataclasses.replace(settings, rounds=_QUICK_ROUNDS, seconds=_QUICK_SECONDS)
    if args.rounds is not None:
        settings = dataclasses.replace(settings, rounds=int(require_positive("--rounds", args.rounds, 1e6)))
    if args.seconds is not None:
        settings = dataclasses.replace(settings, seconds=require_positive("--seconds", args.seconds))
    return settings


def _read_pins(run: str) -> list[TunedJson]:
    """What the autotuners of an earlier run chose."""
    from kernellab.record.reading import load

    choices = [choice for r in load(Path(run))["results"] if r["built"] for choice in r["built"]["tuned"]]
    if not choices:
        raise UserError(f"--pin {run}: no autotuner chose anything in that run")
    return choices
