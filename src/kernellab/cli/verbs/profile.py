"""`klab profile`: where the time of an op, of the MLP, of a script or of a trace goes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.cli.options import add_device_option, add_json_option, choose, require_positive
from kernellab.cli.profiling import counters, programs, recording, traces

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser

SUMMARY = "say where the time of an op, a script or a trace goes"
ORDER = 60

_TOOLS = ("nsys", "ncu")


def arguments(parser: Parser) -> None:
    parser.takes_dims = True
    parser.takes_script_arguments = True
    parser.usage = "klab profile OP | mlp | SCRIPT.py | -m MODULE [options] [-- the script's own arguments]"
    parser.add_argument("target", nargs="*", help="an op, as for other verbs; mlp, the workload; or a Python script")
    parser.add_argument("-m", dest="module", metavar="MODULE", help="a module to run, as python -m does")
    parser.add_argument("--open", action="store_true", help="the targets are traces: read them, run nothing")
    parser.add_argument("--compare", action="store_true", help="the targets are two traces: show what got slower")
    parser.add_argument(
        "--schedule", metavar="W,U,A,R", help="steps to wait, to warm up and to record, and how many times"
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="record a script for at most S seconds (default 20)")
    parser.add_argument(
        "--memory", type=float, metavar="GIB", help="memory that recording a script may take (default 2)"
    )
    parser.add_argument(
        "--no-stacks", action="store_true", help="record no Python calls: less overhead, no source lines"
    )
    parser.add_argument("--ranks", type=int, metavar="N", help="run the MLP or a script in N processes, with torchrun")
    parser.add_argument(
        "--with", dest="tool", metavar="TOOL", help="nsys: record with Nsight Systems; ncu: count with Nsight Compute"
    )
    add_device_option(parser)
    parser.add_argument(
        "--sort",
        metavar="BY",
        help="sort by gpu, gpu_total, cpu, cpu_total or count (default gpu, or cpu without a GPU)",
    )
    parser.add_argument("--rows", type=int, default=10, metavar="N", help="rows of each table (default 10)")
    parser.add_argument(
        "--name-width", type=int, default=80, metavar="N", help="longest name, in characters (default 80)"
    )
    parser.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/WHEN-profile-NAME)")
    add_json_option(parser)
    programs.add_options(parser)
    counters.add_options(parser)
    parser.epilog = "Named dims of an op are options too: --N 1024. Without a GPU the CPU is profiled."


def run(args: argparse.Namespace) -> int:
    _check_options(args)
    if counters.opens_reports(args):
        return counters.open_reports(args)
    if args.open or args.compare:
        return traces.run(args)
    if args.tool == "ncu":
        return counters.run(args)
    program = programs.plan(args)
    if isinstance(program, programs.SizeStudy):
        return recording.run_study(args, program)
    return recording.run(args, program)


def _check_options(args: argparse.Namespace) -> None:
    from kernellab.reporting.profiles.summary import SORTS

    if args.sort is not None:
        choose("--sort", args.sort, SORTS)
    if args.tool is not None:
        choose("--with", args.tool, _TOOLS)
    counters.check_options(args)
    require_positive("--rows", args.rows)
    require_positive("--name-width", args.name_width)
    if args.open and args.compare:
        raise UserError("--open and --compare exclude each other: use one")
