"""`klab tune OP…`: measures the implementations of ops on this device, and writes the table that chooses among them."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError, nearest
from kernellab.cli.options import (
    add_device_option,
    add_json_option,
    case_request,
    parse_device,
    print_json,
    refuse_options,
    require_positive,
)
from kernellab.cli.project import project_defaults
from kernellab.cli.run_folder import create_journal, display_path

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser
    from kernellab.record.journal import Journal
    from kernellab.record.settings import Settings
    from kernellab.running.parent.progress import Progress
    from kernellab.tuning.table_text import Stamp
    from kernellab.tuning.tuner import Plan, Tuned

SUMMARY = "measure which implementations serve best in models on this device, and use those"
ORDER = 60

_QUICK_ROUNDS, _QUICK_SECONDS = 8, 0.2
_MEASURING = ("shape", "dtype", "opt", "seed", "seconds", "timeout", "quick", "dry_run", "out")


def arguments(parser: Parser) -> None:
    parser.add_argument("target", nargs="*", metavar="OP", help="an op of kernellab.functional")
    parser.add_argument("--shape", action="append", metavar="4096x4096,…", help="sizes (default: a ladder)")
    parser.add_argument("--dtype", action="append", metavar="float32,…", help="float32, float16, bfloat16")
    parser.add_argument("--opt", action="append", metavar="NAME=VALUE", help="an option of the op (default: its first)")
    add_device_option(parser)
    parser.add_argument("--seed", type=int, metavar="N", help="seed of all random inputs (default 0)")
    parser.add_argument("--seconds", type=float, metavar="S", help="of timing each implementation, size and pass")
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds per implementation and case (default 60)")
    parser.add_argument("--quick", action="store_true", help="only the first case, few rounds")
    parser.add_argument("--dry-run", action="store_true", help="say what would be measured, and measure nothing")
    parser.add_argument("--out", metavar="FILE", help="write the table here; it is not used from there")
    parser.add_argument("--show", action="store_true", help="print the tables in use")
    parser.add_argument("--reset", action="store_true", help="remove what was tuned: of these ops, or all")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    _refuse_unknown(args.target)
    if args.show or args.reset:
        option = "--show" if args.show else "--reset"
        if args.show and args.reset:
            raise UserError("--show and --reset: one at a time")
        refuse_options(args, _MEASURING, f"measures: leave it out, or leave out {option}")
        return _show(args) if args.show else _reset(args)
    if not args.target:
        raise UserError("no op named: klab tune softmax rms_norm, or klab tune --show. klab list shows the ops")
    return _tune(args)


def _refuse_unknown(ops: list[str]) -> None:
    from kernellab.library.rules import served_ops

    for op in ops:
        if op not in served_ops():
            known = nearest(op, served_ops())
            raise UserError(f"{op} is no op of kernellab.functional, so no table chooses for it: {known}")


# Measuring ---------------------------------------------------------------------------------------------


def _tune(args: argparse.Namespace) -> int:
    from kernellab.library.tuned import tuned_path
    from kernellab.reporting.terminal import tuning as report
    from kernellab.reporting.text.console import console
    from kernellab.tuning import document, table_file
    from kernellab.tuning.tuner import make_plan, tune

    settings = [_settings(args, op) for op in dict.fromkeys(args.target)]
    plans = [make_plan(each) for each in settings]
    out = console(stderr=args.json)
    for plan in plans:
        report.show_plan(plan, out)
    if args.dry_run:
        if args.json:
            print_json({"plans": [document.plan_json(plan) for plan in plans]})
        return 0
    path = Path(args.out) if args.out else tuned_path(plans[0].architecture)
    finished: list[Tuned] = []
    interrupted = False
    for plan in plans:
        try:
            tuned = tune(plan, _new_journal, _new_progress)
        except KeyboardInterrupt:
            interrupted = True
            break
        if tuned.is_measured:
            table_file.put_section(path, tuned.section(_stamp(plan, tuned)))
        finished.append(tuned)
        report.show_tuned(tuned, out, display_path(tuned.run))
    written = [tuned for tuned in finished if tuned.is_measured]
    if written:
        out.print(f"table: {path}" + ("; it is not used from there" if args.out else "; used from now on"))
    if args.json:
        print_json(document.tuned_json(finished, path if written else None, used=not args.out))
    if interrupted:
        out.print("interrupted: ops that were not finished keep their choices", style="yellow")
        return 130
    return 1 if any(tuned.refused for tuned in finished) else 0 if len(written) == len(plans) else 3


def _settings(args: argparse.Namespace, op: str) -> Settings:
    from kernellab.record.settings import Settings

    for name, value in project_defaults().items():
        if name in ("dtype", "device", "seed", "timeout", "seconds") and getattr(args, name) is None:
            setattr(args, name, [value] if name == "dtype" else value)
    if args.seed is not None and not 0 <= args.seed < 1 << 53:
        raise UserError(f"--seed {args.seed}: must be between 0 and 2^53")
    seconds = _QUICK_SECONDS if args.quick else None
    return Settings(
        targets=[op],
        stages=["check", "time"],
        request=case_request(args, quick=args.quick).to_json(),
        device=parse_device(args.device),
        seed=args.seed or 0,
        timeout_s=require_positive("--timeout", 60.0 if args.timeout is None else args.timeout),
        seconds=seconds if args.seconds is None else require_positive("--seconds", args.seconds),
        rounds=_QUICK_ROUNDS if args.quick else 10,
        passes=["forward", "backward"],
        only_times=True,
    )


def _new_journal(settings: Settings, inside: Path | None) -> Journal:
    if inside is None:
        return create_journal(None, settings, "tune-")
    number = 1 + len(list(inside.glob("verify-*")))
    return create_journal(str(inside / f"verify-{number}"), settings, "tune-")


@contextlib.contextmanager
def _new_progress() -> Iterator[Progress]:
    from kernellab.reporting.terminal.progress import stderr_progress

    progress = stderr_progress()
    try:
        yield progress
    finally:
        progress.stop()


def _stamp(plan: Plan, tuned: Tuned) -> Stamp:
    from kernellab.tuning.table_text import Stamp

    environment, machine = tuned.record["environment"], tuned.record["machine"]
    gpu = machine["gpu"]
    return Stamp(
        architecture=plan.architecture,
        device=gpu["name"] if gpu else environment["cpu"]["name"],
        machine=machine["class"],
        date=time.strftime("%Y-%m-%d %H:%M"),
        versions={name: version for name, version in environment["packages"].items() if version},
        run=str(tuned.run.resolve()),
    )


# The tables in use -------------------------------------------------------------------------------------


def _architecture(device: str) -> str:
    """The architecture of a device, without torch."""
    from kernellab.machine.nvml import gpu_architecture

    if device == "cpu":
        return "cpu"
    found = gpu_architecture(int(device.partition(":")[2] or 0))
    if found is None and device != "auto":
        raise UserError(f"--device {device}: no NVIDIA GPU responds. klab doctor shows what is missing")
    return found or "cpu"


def _show(args: argparse.Namespace) -> int:
    from kernellab.library.sources import table_sources
    from kernellab.tuning.document import sources_json

    architecture = _architecture(parse_device(args.device))
    sources = table_sources(architecture)
    if args.json:
        print_json(sources_json(architecture, sources, args.target))
        return 0
    for source in sources:
        state = "in use" if source.is_used else f"not used: {source.problem}"
        print(f"# {source.title}: {source.path} ({state})", end="\n\n")
        if source.is_used:
            print(source.text_of(args.target).strip(), end="\n\n")
    return 0


def _reset(args: argparse.Namespace) -> int:
    from kernellab.library.tuned import tuned_path
    from kernellab.tuning.table_file import remove_sections

    path = tuned_path(_architecture(parse_device(args.device)))
    existed = path.exists()
    removed = remove_sections(path, args.target)
    if args.json:
        print_json({"table": str(path), "removed": removed, "exists": path.exists()})
    elif not existed or (args.target and not removed):
        print(f"nothing to remove: {path} " + (f"has no {', '.join(args.target)}" if existed else "does not exist"))
    else:
        left = "its other rules stay" if path.exists() else "the shipped tables decide"
        print(f"removed {', '.join(removed) or 'the table'} from {path}: {left}")
    return 0
