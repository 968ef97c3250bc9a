"""`klab run`, `klab check`, `klab bench`: the same job with more or fewer stages."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError, nearest
from kernellab.cli import debug, sanitize
from kernellab.cli.begin import absolute, begun, progress_bar, refuse_unknown_targets, shown
from kernellab.cli.options import case_arguments, case_request, device_in, positive, project_defaults
from kernellab.declaration.case_request import CaseRequest
from kernellab.timing.timers import TIMERS, timer_help

_STAGES = {"run": ["check", "time"], "check": ["check", "battery"], "bench": ["check", "time"]}


def arguments(sub: argparse.ArgumentParser, verb: str) -> None:
    sub.add_argument("target", nargs="*", help="an op's name, a file (ops.py, ops.py:name) or package.module:op")
    case_arguments(sub, "sizes of the dims, in order")
    sub.add_argument("--device", metavar="DEV", help="cpu, cuda or cuda:1 (default: the GPU if there is one)")
    sub.add_argument("--seed", type=int, metavar="N", help="the seed of all random inputs (default 0)")
    sub.add_argument("--timeout", type=float, metavar="S", help="seconds for one way at one case (default 60)")
    if verb != "check":
        sub.add_argument("--seconds", type=float, metavar="S", help="time to spend timing each way (default 1; CPU 3)")
        sub.add_argument("--rounds", type=int, metavar="N", help="rounds at least (default 10)")
        sub.add_argument("--precision", metavar="P", help="ways this near to each other are the same (default 0.5%%)")
        sub.add_argument("--pass", dest="passes", metavar="P", help="forward, backward, both; several by commas")
        sub.add_argument("--timer", metavar="T", help=timer_help())
        sub.add_argument("--cache", metavar="C", help="cold, warm or both by commas (default cold)")
        sub.add_argument("--panel", action="store_true", help="all timers side by side, and what governs the time")
        sub.add_argument("--pin", metavar="RUN", help="keep to the autotuners' choices of an earlier run")
        sub.add_argument("--only-times", action="store_true", help="leave out the ceilings and what a profiler knows")
        sub.add_argument("--refresh-ceilings", action="store_true", help="measure copy bandwidth and matmul rate again")
    else:
        debug.arguments(sub)
        sub.add_argument("--declared", action="store_true", help="only the declared cases, no battery")
        sanitize.arguments(sub)
        sub.add_argument("--budget", type=float, metavar="S", help="search beyond the battery for S seconds in all")
    sub.add_argument("--cells", metavar="I/N", help="only every N-th case, beginning with the I-th (klab merge joins)")
    sub.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/WHEN-NAME)")
    sub.add_argument("--resume", metavar="DIR", help="finish a run that was interrupted")
    sub.add_argument("--quick", action="store_true", help="only the first case, a small battery, few rounds")
    sub.add_argument("--verbose", action="store_true", help="also show how each time came about")
    sub.add_argument("--json", action="store_true", help="print the record, with its verdicts, as one JSON document")
    sub.epilog = "Named dims are options too: --N 1024,2048 or --N 256:4096:128 or --N 1024:65536:x2."


def run(args: argparse.Namespace, rest: list[str]) -> int:
    if debug.asked_for(args):
        return debug.run(args, _settings(args, rest))
    from kernellab.record import verdict
    from kernellab.record.settings import Settings
    from kernellab.reporting.charts import files as curves
    from kernellab.reporting.terminal import results as terminal
    from kernellab.reporting.text.console import console
    from kernellab.running.parent.runner import Runner

    if args.resume:
        journal, settings = _resumed(Path(args.resume), args, rest)
    else:
        settings = Settings(**_settings(args, rest))
        refuse_unknown_targets(settings.targets)
        journal = begun(args.out, settings)
    progress = progress_bar()
    if os.environ.get("TRITON_INTERPRET"):
        progress.say("TRITON_INTERPRET is set: ignored, timings are never taken in the interpreter")
    runner = Runner(settings, journal, progress)
    interrupted = False
    try:
        runner.run()
    except KeyboardInterrupt:
        interrupted = True
    except UserError:
        if not journal.record["results"]:
            journal.remove()  # refused before it began: leave nothing behind
        raise
    finally:
        progress.stop()
    journal.save()
    record = verdict.derive(journal.record)
    if args.json:
        from kernellab.explaining.document import add_findings

        add_findings(record)
        json.dump(record, sys.stdout, indent=1, allow_nan=False)
        print()
        curves.write(record, journal.folder)
    else:
        out = console()
        terminal.show(record, out, verbose=args.verbose)
        terminal.show_files(curves.write(record, journal.folder), shown(journal.folder), out)
        out.print(f"record: {shown(journal.folder)}", style="dim")
        if interrupted:
            out.print(f"interrupted; klab {args.verb} --resume {shown(journal.folder)} goes on", style="yellow")
    journal.close()
    return 130 if interrupted else verdict.exit_code(record)


def _settings(args: argparse.Namespace, rest: list[str]) -> dict[str, Any]:
    defaults = project_defaults()
    for name, value in defaults.items():
        if getattr(args, name, None) is None:
            setattr(args, name, [value] if name == "dtype" else value)
    # First: `--sanitize gelu` takes the op for a tool.
    sanitizers = sanitize.asked_for(args, device_in(args.device)) if args.verb == "check" else []
    if not args.target:
        raise UserError(f"no op named: klab {args.verb} gelu, or a file of your own. klab list shows the ops")
    request = case_request(args, rest)
    found: dict[str, Any] = {
        "targets": [absolute(target) for target in args.target],
        "stages": _stages(args, request),
        "request": request.to_json(),
        "impls": [name.strip() for name in args.impl.split(",")] if args.impl else [],
        "device": device_in(args.device),
        "seed": _seed(args.seed),
        "cells": _cells(args.cells),
        "timeout_s": positive("--timeout", args.timeout if args.timeout is not None else 60.0),
    }
    if sanitizers:
        found |= {"sanitizers": sanitizers, "stages": [*found["stages"], "sanitize"]}
    if args.verb == "check" and args.budget is not None:
        found["budget_s"] = _budget(args.budget, found["stages"])
    if args.verb != "check":
        found["refresh_ceilings"] = args.refresh_ceilings
        found |= _how_to_time(args)
        if args.quick:
            found |= {"rounds": 8, "seconds": 0.2}
        if args.rounds is not None:
            found["rounds"] = int(positive("--rounds", args.rounds, 1e6))
        if args.seconds is not None:
            found["seconds"] = positive("--seconds", args.seconds)
    return found


def _stages(args: argparse.Namespace, request: CaseRequest) -> list[str]:
    """Whoever asks for sizes or options wants those, and no battery."""
    stages = _STAGES[args.verb]
    particular = bool(request.shapes or request.dims or request.options) or getattr(args, "declared", False)
    return [stage for stage in stages if not (stage == "battery" and particular)]


def _budget(value: float, stages: list[str]) -> float:
    if "battery" not in stages:
        raise UserError("--budget searches beyond the battery: it goes with no sizes, no options and no --declared")
    if importlib.util.find_spec("hypothesis") is None:
        raise UserError("--budget needs Hypothesis: pip install 'kernellab[search]'")
    return positive("--budget", value) if value else 0.0


def _seed(value: int | None) -> int:
    if value is not None and not 0 <= value < 1 << 53:
        raise UserError(f"--seed {value}: must be between 0 and 2^53")
    return value or 0


def _how_to_time(args: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {"panel": args.panel, "only_times": args.only_times}
    profiled = [name for name, timer in TIMERS.items() if timer.needs_profiler]
    if args.only_times and (args.panel or set(profiled) & set((args.timer or "").split(","))):
        raise UserError(
            f"--only-times leaves out the profiler, which --panel and these timers need: {', '.join(profiled)}"
        )
    if args.precision is not None:
        found["precision"] = _precision(args.precision)
    if args.passes is not None:
        found["passes"] = _among("--pass", args.passes, ("forward", "backward", "both"))
    if args.timer is not None:
        found["timers"] = args.timer.split(",")
    if args.cache is not None:
        found["caches"] = _among("--cache", args.cache, ("cold", "warm"))
    if args.pin is not None:
        from kernellab.record.reading import load

        choices = [c for r in load(Path(args.pin))["results"] for c in (r["built"]["tuned"] if r["built"] else ())]
        if not choices:
            raise UserError(f"--pin {args.pin}: no autotuner chose anything in that run")
        found["pins"] = choices
    return found


def _among(option: str, text: str, allowed: tuple[str, ...]) -> list[str]:
    chosen = [part.strip() for part in text.split(",")]
    for part in chosen:
        if part not in allowed:
            raise UserError(f"{option} {part}: {nearest(part, allowed)}")
    return list(dict.fromkeys(chosen))


def _precision(text: str) -> float:
    """`0.5%` or `0.005`."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise UserError(f"--precision {text!r}: write a share, 0.005 or 0.5%") from None
    return positive("--precision", value, 1.0)


def _cells(text: str | None) -> list[int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UserError(f"cannot read --cells {text!r}: write 2/4 for the second of four parts")
    return [int(found[1]), int(found[2])]


def _resumed(folder: Path, args: argparse.Namespace, rest: list[str]) -> tuple[Any, Any]:
    from kernellab.machine.environment import environment
    from kernellab.record.journal import Journal
    from kernellab.record.reading import events_of, head_of, read_journal
    from kernellab.record.settings import Settings

    given = [
        "impl",
        "shape",
        "dtype",
        "opt",
        "device",
        "seed",
        "timeout",
        "seconds",
        "rounds",
        "cells",
        "out",
        "precision",
        "passes",
        "timer",
        "cache",
        "pin",
        "sanitize",
        "budget",
    ]
    flags = args.quick or getattr(args, "panel", False) or getattr(args, "only_times", False)
    if rest or args.target or flags or any(getattr(args, name, None) not in (None, []) for name in given):
        raise UserError("--resume takes everything from the run it finishes: give it no op, dims or options")
    lines = read_journal(folder)
    head, *others = events_of(lines)
    if head_of(lines).merged_from is not None:
        raise UserError(f"{folder} was merged from other runs: resume the one that did not finish, and merge again")
    settings = Settings.from_json(head_of(lines).settings)
    # The environment of today is compared with the run's own before anything is measured.
    head = dataclasses.replace(head_of(lines), environment=environment())
    return Journal(folder, [head, *others]), settings
