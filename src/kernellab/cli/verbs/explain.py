"""`klab explain`: why each implementation of an op is as fast as it is, and what to do next."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kernellab.base.errors import UserError
from kernellab.cli.options import (
    absolute_target,
    add_case_options,
    add_device_option,
    add_json_option,
    parse_device,
    print_json,
    require_positive,
    sized_request,
    split_commas,
)
from kernellab.cli.report_file import write_report
from kernellab.cli.run_folder import create_journal, display_path, runs_folder

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser
    from kernellab.declaration.targets import Target
    from kernellab.explaining.run_explanation import Unexplained
    from kernellab.record.journal import Journal
    from kernellab.record.schema import Record
    from kernellab.record.settings import Settings

SUMMARY = "say why each implementation is as fast as it is, and what to do next"
ORDER = 50

# The only options that may go with a finished run.
_WITH_RUN = {"target", "gpu", "arch", "timeout", "plot", "verbose", "json", "debug"}


def arguments(parser: Parser) -> None:
    parser.takes_dims = True
    parser.add_argument("target", help="an op, as for other verbs, or the folder of a run")
    add_case_options(parser)
    add_device_option(parser)
    parser.add_argument(
        "--gpu", metavar="NAME", help="explain kernels for this GPU, which need not be present, by a model"
    )
    parser.add_argument("--arch", metavar="sm_90", help="the same by architecture (default: the GPU's, else sm_90)")
    parser.add_argument("--static", action="store_true", help="time nothing: use only the machine code and a model")
    parser.add_argument(
        "--seconds", type=float, metavar="S", help="time to spend on timing each implementation (default 1; CPU 3)"
    )
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="seconds per implementation and case (default 60)"
    )
    parser.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/WHEN-explain-NAME)")
    parser.add_argument("--plot", metavar="FILE", help="draw the roofline to FILE.png or FILE.svg")
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="also show the evidence of every finding, and what is automatic in CUDA and Triton",
    )
    add_json_option(parser)
    parser.epilog = "Named dims are options too: --N 1024. Without a GPU kernels are explained by a model of one."


def run(args: argparse.Namespace) -> int:
    from kernellab.explaining.document import run_document
    from kernellab.explaining.run_explanation import explain_run
    from kernellab.record import verdict
    from kernellab.record.statuses import FAILED
    from kernellab.reporting.terminal import explanation as report
    from kernellab.reporting.text.console import console

    if args.plot and Path(args.plot).suffix not in (".png", ".svg"):
        raise UserError(f"--plot {args.plot}: the file's name must end in .png or .svg")
    gpu_name = _gpu_name(args)
    loaded = _load_or_measure(args, gpu_name)
    record, folder = loaded.record, loaded.folder
    derived = verdict.derive(record)
    report_line = write_report(derived, folder) if loaded.measured else ""
    explanation = explain_run(derived, gpu_name)
    if not explanation.explanations:
        raise UserError(_nothing_to_explain(explanation.unexplained, args.target))
    if args.json:
        print_json({**run_document(derived, explanation), "folder": display_path(folder)})
    else:
        out = console()
        report.show(explanation, derived, out, verbose=args.verbose)
        out.print(f"record: {display_path(folder)}", style="dim")
        if report_line:
            out.print(report_line, style="dim", soft_wrap=True)
    if args.plot:
        from kernellab.reporting.charts.roofline import plot

        plot([entry.subject for entry in explanation.explanations], derived, Path(args.plot))
    if loaded.interrupted:
        return 130
    failed = any(entry["status"] in FAILED for entry in record["code"])
    return 1 if failed else verdict.exit_code(derived) if record["results"] else 0


def _nothing_to_explain(unexplained: Sequence[Unexplained], target: str) -> str:
    reasons = {f"{entry.impl}: {entry.reason}" for entry in unexplained if entry.reason}
    return f"nothing of {target} was timed or compiled{': ' + '; '.join(sorted(reasons)) if reasons else ''}"


def _gpu_name(args: argparse.Namespace) -> str | None:
    """The GPU of the database that `--gpu` names, or the largest one of `--arch`."""
    from kernellab.machine.chips import chip
    from kernellab.machine.gpus import gpu, gpus

    if args.gpu and args.arch:
        raise UserError("--gpu implies the architecture: leave out --arch")
    if args.gpu:
        return gpu(args.gpu).name
    if not args.arch:
        return None
    arch = chip(args.arch).arch
    candidates = [candidate for candidate in gpus() if candidate.arch == arch]
    if not candidates:
        raise UserError(f"no GPU of {arch} is in the database: --gpu names one; klab device --list shows them")
    return max(candidates, key=lambda candidate: candidate.sms).name


class _Loaded(NamedTuple):
    record: Record
    folder: Path
    measured: bool  # by this command
    interrupted: bool


def _load_or_measure(args: argparse.Namespace, gpu_name: str | None) -> _Loaded:
    from kernellab.history.index import add_run
    from kernellab.record.journal import JOURNAL, RUN
    from kernellab.record.reading import load

    path = Path(args.target)
    if (path / JOURNAL).exists() or (path / RUN).exists() or path.name in (JOURNAL, RUN):
        if args.dims or args.given.keys() - _WITH_RUN:
            raise UserError(
                f"{args.target} is a finished run and is not measured again: leave out dims and options of measuring"
            )
        record = load(path)
        _require_costs(record, args.target)
        return _Loaded(record, path if path.is_dir() else path.parent, measured=False, interrupted=False)
    settings = _settings(args, gpu_name)
    journal = create_journal(args.out, settings, "explain-")
    interrupted = _measure(settings, journal)
    journal.save()
    journal.close()
    add_run(journal.folder, runs_folder())
    return _Loaded(journal.record, journal.folder, measured=True, interrupted=interrupted)


def _require_costs(record: Record, target: str) -> None:
    """Every rule needs the cost of the op, which runs of `klab inspect` do not have."""
    entries = [entry for entry in record["code"] if entry["kernels"]]
    if record["results"] or not entries or any(entry.get("cost") for entry in entries):
        return
    inspected = [word for word in record["command"][2:3] if not word.startswith("-")]
    command = f"klab explain {(inspected or [entries[0]['op']])[0]} --static"
    raise UserError(f"{target} has only machine code: {command} makes a run that can be explained")


def _settings(args: argparse.Namespace, gpu_name: str | None) -> Settings:
    from kernellab.declaration.targets import resolve
    from kernellab.machine.gpus import gpu
    from kernellab.record.settings import Settings

    _require_one_op(resolve(args.target))
    return Settings(
        targets=[absolute_target(args.target)],
        stages=["explain"] if args.static else ["check", "time", "explain"],
        request=sized_request(args).to_json(),
        impls=split_commas(args.impl),
        archs=[gpu(gpu_name).arch] if gpu_name else [],
        gpu=gpu_name if gpu_name and args.gpu else "",  # --arch may also mean the GPU that is here
        device=parse_device(args.device),
        seconds=require_positive("--seconds", args.seconds) if args.seconds is not None else None,
        timeout_s=require_positive("--timeout", args.timeout),
    )


def _require_one_op(target: Target) -> None:
    """Explaining is for one op at a time; refused before anything is measured."""
    from kernellab.declaration.catalogue import parse

    if target.file and not target.op:
        names = [entry.name for entry in parse(Path(target.file)).values()]
        if len(names) > 1:
            raise UserError(f"{target.text} declares {', '.join(names)}: name one, {target.text}:{names[0]}")


def _measure(settings: Settings, journal: Journal) -> bool:
    """Checks, times and profiles what runs here, then reads the machine code. Returns whether it was interrupted."""
    from kernellab.reporting.terminal.progress import stderr_progress
    from kernellab.running.parent.inspection import Inspection
    from kernellab.running.parent.runner import Runner

    progress = stderr_progress()
    try:
        if "time" in settings.stages:
            Runner(settings, journal, progress).run()
        Inspection(settings, journal, progress.say).run()
    except KeyboardInterrupt:
        return True
    except UserError:
        if not journal.record["results"] and not journal.record["code"]:
            journal.remove()
        raise
    finally:
        progress.stop()
    return False
