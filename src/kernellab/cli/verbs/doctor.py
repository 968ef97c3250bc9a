"""`klab doctor`: what is installed here, what does not work without each missing component, how to get it.

With `--aa`: how well this machine measures, from implementations whose difference is known.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.cli.options import (
    add_device_option,
    add_json_option,
    parse_device,
    print_json,
    refuse_options,
    require_positive,
)

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser

SUMMARY = "show what is installed on this machine and what is missing"
ORDER = 130

_AA_RUNS = 10


def arguments(parser: Parser) -> None:
    add_json_option(parser)
    parser.add_argument(
        "--aa", action="store_true", help="measure equal implementations, and known differences of 1, 2 and 5 %%"
    )
    parser.add_argument("--runs", type=int, metavar="N", help=f"with --aa: runs, each a process (default {_AA_RUNS})")
    parser.add_argument("--seconds", type=float, metavar="S", help="with --aa: time to spend on each implementation")
    add_device_option(parser, "with --aa: ")
    parser.add_argument("--out", metavar="DIR", help="with --aa: keep the runs' records in this folder")


def run(args: argparse.Namespace) -> int:
    if args.aa:
        return _run_aa(args)
    refuse_options(args, ("runs", "seconds", "device", "out"), "is an option of --aa: add --aa")
    return _examine(args)


def _examine(args: argparse.Namespace) -> int:
    from kernellab.doctor.installation import examine

    components = examine()
    if args.json:
        print_json([asdict(component) for component in components])
        return 0
    for component in components:
        if component.found:
            print(f"  {component.name:<17} {component.found}")
        else:
            remedy = f"; {component.remedy}" if component.remedy else ""
            print(f"✗ {component.name:<17} not found: {component.cost}{remedy}")
    return 0


def _run_aa(args: argparse.Namespace) -> int:
    from kernellab.doctor.aa_runs import repeat
    from kernellab.doctor.aa_summary import summarise, variations
    from kernellab.machine import variation

    runs = args.runs if args.runs is not None else _AA_RUNS
    require_positive("--runs", runs)
    if args.seconds is not None:
        require_positive("--seconds", args.seconds)
    device = parse_device(args.device)
    with tempfile.TemporaryDirectory(prefix="kernellab-aa-") as scratch:
        series = repeat(runs, Path(args.out or scratch), device=device, seconds=args.seconds, say=_say)
    summary = summarise(series.records)
    cases, machine = variations(summary), summary["machine"]
    if cases and machine is not None:
        variation.store_variation(machine, summary["versions"] or {}, summary["runs"], cases)
    if args.json:
        print_json(summary)
    elif summary["runs"]:
        from kernellab.reporting.terminal import aa
        from kernellab.reporting.text.console import console

        aa.show(summary, console())
    else:
        print("no run could be completed")
    if series.interrupted:
        return 130
    return 0 if series.records else 3


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
