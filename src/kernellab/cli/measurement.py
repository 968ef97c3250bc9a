"""The job of `klab run`, `klab check` and `klab bench`: check the implementations of ops, time those that are right."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.cli.options import (
    absolute_target,
    add_case_options,
    add_device_option,
    case_request,
    parse_device,
    print_json,
    require_positive,
    split_commas,
    write_file,
)
from kernellab.cli.project import project_defaults
from kernellab.cli.report_file import write_report
from kernellab.cli.run_folder import create_journal, display_path, runs_folder
from kernellab.peers import peer_names

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser
    from kernellab.record.derived import DerivedRecord
    from kernellab.record.journal import Journal
    from kernellab.record.settings import Settings
    from kernellab.running.parent.progress import Progress
    from kernellab.running.processes.worker_template import WorkerTemplate

_WITH_RESUME = {"resume", "strict", "json", "csv", "verbose", "debug"}  # the only options that may go with --resume
_TIMEOUT_S = 60.0


def add_options(parser: Parser) -> None:
    parser.takes_dims = True
    parser.add_argument("target", nargs="*", help="an op's name, a file (ops.py, ops.py:name) or package.module:op")
    add_case_options(parser, "sizes of the dims, in order")
    add_device_option(parser)
    parser.add_argument("--seed", type=int, metavar="N", help="seed of all random inputs (default 0)")
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds per implementation and case (default 60)")
    parser.add_argument(
        "--cells", metavar="I/N", help="only every N-th case, starting with the I-th (klab merge joins the runs)"
    )
    parser.add_argument(
        "--peers", action="store_true", help=f"also the kernels of other libraries: {', '.join(peer_names())}"
    )
    parser.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/WHEN-NAME)")
    parser.add_argument("--resume", metavar="DIR", help="finish a run that was interrupted")
    parser.add_argument("--quick", action="store_true", help="only the first case, a small battery, few rounds")
    parser.add_argument(
        "--verbose", action="store_true", help="also show how each time was measured, and which trials passed"
    )
    parser.add_argument("--strict", action="store_true", help="exit code 1 also for what is only imprecise")
    parser.add_argument("--json", action="store_true", help="print the record with its verdicts as one JSON document")
    parser.add_argument("--csv", metavar="FILE", help="write the results as CSV; - prints them and nothing else")
    parser.epilog = "Named dims are options too: --N 1024,2048 or --N 256:4096:128 or --N 1024:65536:x2."


def read_settings(args: argparse.Namespace, stages: list[str]) -> Settings:
    """The settings that the options of `add_options` ask for; project defaults fill in what was not given."""
    from kernellab.record.settings import Settings

    for name, value in project_defaults().items():
        if getattr(args, name, None) is None:
            setattr(args, name, [value] if name == "dtype" else value)
    if not args.target:
        raise UserError(f"no op named: klab {args.verb} gelu, or a file of your own. klab list shows the ops")
    return Settings(
        targets=[absolute_target(target) for target in args.target],
        stages=stages,
        request=case_request(args, quick=args.quick).to_json(),
        impls=split_commas(args.impl),
        device=parse_device(args.device),
        seed=_parse_seed(args.seed),
        cells=_parse_cells(args.cells),
        peers=peer_names() if args.peers else [],
        timeout_s=require_positive("--timeout", _TIMEOUT_S if args.timeout is None else args.timeout),
    )


def _parse_seed(value: int | None) -> int:
    if value is not None and not 0 <= value < 1 << 53:
        raise UserError(f"--seed {value}: must be between 0 and 2^53")
    return value or 0


def _parse_cells(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = re.fullmatch(r"(\d+)/(\d+)", text)
    if not parts or not 1 <= int(parts[1]) <= int(parts[2]):
        raise UserError(f"cannot read --cells {text!r}: write 2/4 for the second of four parts")
    return [int(parts[1]), int(parts[2])]


def run(args: argparse.Namespace, read: Callable[[argparse.Namespace], Settings]) -> int:
    """Runs the job, shows the record, returns the exit code. `read` turns the arguments into the verb's settings."""
    from kernellab.history.index import add_run
    from kernellab.record import verdict
    from kernellab.reporting.terminal.progress import stderr_progress

    _check_outputs(args)
    journal, settings = _resume(args) if args.resume else start(args.out, read(args), ["klab", *sys.argv[1:]])
    progress = stderr_progress()
    if os.environ.get("TRITON_INTERPRET"):
        progress.say("TRITON_INTERPRET is set and ignored: times are never taken in the interpreter")
    interrupted = False
    try:
        measure(settings, journal, progress)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        progress.stop()
    record = verdict.derive(journal.record)
    _show(args, record, journal.folder, interrupted=interrupted)
    journal.close()
    add_run(journal.folder, runs_folder())
    return 130 if interrupted else verdict.exit_code(record, strict=args.strict)


def start(out: str | None, settings: Settings, command: Sequence[str]) -> tuple[Journal, Settings]:
    """The journal of a new run, in a folder of its own."""
    from kernellab.declaration.targets import resolve

    for target in settings.targets:
        resolve(target)  # an unknown name is refused before a folder is created
    return create_journal(out, settings, command=command), settings


def measure(settings: Settings, journal: Journal, progress: Progress, template: WorkerTemplate | None = None) -> None:
    """Does what the settings ask for and the journal does not have yet. What was measured is saved in any case.

    `template`: what workers are forked from, where several runs of this process share one.
    """
    from kernellab.running.parent.runner import Runner

    try:
        Runner(settings, journal, progress, template).run()
    except UserError:
        if not journal.record["results"]:
            journal.remove()  # refused before anything was measured
        raise
    except KeyboardInterrupt:
        journal.save()
        raise
    journal.save()


def _check_outputs(args: argparse.Namespace) -> None:
    """Refuses, before anything is measured, outputs that cannot be written afterwards."""
    if args.csv == "-" and args.json:
        raise UserError("--csv - and --json both print to standard output: write one of them to a file, --csv FILE")
    if args.csv not in (None, "-") and not Path(args.csv).parent.is_dir():
        raise UserError(f"--csv {args.csv} cannot be written: there is no folder {Path(args.csv).parent}")


def _resume(args: argparse.Namespace) -> tuple[Journal, Settings]:
    from kernellab.machine.environment import environment
    from kernellab.record.journal import Journal
    from kernellab.record.reading import events_of, head_of, read_journal
    from kernellab.record.settings import Settings

    if args.dims or args.given.keys() - _WITH_RESUME:
        raise UserError("--resume takes everything from the run it finishes: leave out the op, dims and other options")
    folder = Path(args.resume)
    lines = read_journal(folder)
    head, events = head_of(lines), events_of(lines)
    if head.merged_from is not None:
        raise UserError(f"{folder} was merged from other runs: resume the one that did not finish, and merge again")
    settings = Settings.from_json(head.settings)
    # The runner compares today's environment with the run's own before it measures anything.
    events[0] = dataclasses.replace(head, environment=environment())
    return Journal(folder, events), settings


def _show(args: argparse.Namespace, record: DerivedRecord, folder: Path, *, interrupted: bool) -> None:
    from kernellab.reporting.charts import files
    from kernellab.reporting.terminal import results
    from kernellab.reporting.text.console import console

    if args.csv is not None:
        _write_csv(args.csv, record)
    if args.json:
        from kernellab.explaining.document import add_findings

        add_findings(record)
        print_json(record)
    if args.json or args.csv == "-":
        files.write(record, folder)
        write_report(record, folder)
        return
    out = console()
    results.show(record, out, verbose=args.verbose)
    results.show_files(files.write(record, folder), display_path(folder), out)
    out.print(f"record: {display_path(folder)}", style="dim")
    out.print(write_report(record, folder), style="dim", soft_wrap=True)
    if interrupted:
        out.print(f"interrupted; klab {args.verb} --resume {display_path(folder)} continues", style="yellow")


def _write_csv(file: str, record: DerivedRecord) -> None:
    from kernellab.reporting.exports.csv_text import results_csv

    if file == "-":
        sys.stdout.write(results_csv(record))
    else:
        write_file("--csv", Path(file), results_csv(record))
