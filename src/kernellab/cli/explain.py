"""`klab explain`: why each way of an op is as fast as it is, and what to do next; of an op, or of a record."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.base.errors import UserError
from kernellab.cli.begin import absolute, begun, progress_bar, shown
from kernellab.cli.options import case_arguments, case_request, device_in, positive

if TYPE_CHECKING:
    from kernellab.declaration.targets import Target
    from kernellab.explaining.run_explanation import Unexplained
    from kernellab.record.journal import Journal
    from kernellab.record.settings import Settings


def arguments(sub: argparse.ArgumentParser, verb: str) -> None:
    sub.add_argument("target", help="an op, as for other verbs, or the folder of a run")
    case_arguments(sub)
    sub.add_argument("--device", metavar="DEV", help="cpu, cuda or cuda:1 (default: the GPU if there is one)")
    sub.add_argument("--gpu", metavar="NAME", help="a GPU that is not here, to explain kernels for by model: h200")
    sub.add_argument("--arch", metavar="sm_90", help="the same by architecture (default: the GPU's, else sm_90)")
    sub.add_argument("--static", action="store_true", help="time nothing: what the machine code and a model say")
    sub.add_argument("--seconds", type=float, metavar="S", help="time to spend timing each way (default 1; CPU 3)")
    sub.add_argument("--timeout", type=float, default=60.0, metavar="S", help="seconds for one way at one case (60)")
    sub.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/WHEN-explain-NAME)")
    sub.add_argument("--plot", metavar="FILE", help="draw the roofline to FILE.png or FILE.svg")
    sub.add_argument(
        "--verbose", action="store_true", help="evidence of every finding; who does what in CUDA and Triton"
    )
    sub.add_argument("--json", action="store_true", help="print one JSON document")
    sub.epilog = "Named dims are options too: --N 1024. Without a GPU kernels are explained by a model of one."


def run(args: argparse.Namespace, rest: list[str]) -> int:
    from kernellab.explaining.document import run_document
    from kernellab.explaining.run_explanation import explain_run
    from kernellab.record import verdict
    from kernellab.reporting.terminal import explanation as report
    from kernellab.reporting.text.console import console

    if args.plot and Path(args.plot).suffix not in (".png", ".svg"):
        raise UserError(f"--plot {args.plot}: draws to a file .png or .svg")
    gpu_name = _gpu_name(args)
    record, folder, interrupted = _record(args, rest)
    derived = verdict.derive(record)
    explanation = explain_run(derived, gpu_name)
    if not explanation.explanations:
        raise UserError(_nothing(explanation.unexplained, args.target))
    if args.json:
        document = {**run_document(derived, explanation), "folder": shown(folder)}
        json.dump(document, sys.stdout, indent=1, allow_nan=False)
        print()
    else:
        out = console()
        report.show(explanation, derived, out, verbose=args.verbose)
        out.print(f"record: {shown(folder)}", style="dim")
    if args.plot:
        from kernellab.reporting.charts.roofline import plot

        plot([one.subject for one in explanation.explanations], derived, Path(args.plot))
    if interrupted:
        return 130
    bad = any(entry["status"] in verdict.BAD for entry in record["code"])
    return 1 if bad else verdict.exit_code(derived) if record["results"] else 0


def _nothing(unexplained: Sequence[Unexplained], target: str) -> str:
    reasons = {f"{one.impl}: {one.reason}" for one in unexplained if one.reason}
    return f"nothing of {target} was timed or compiled{': ' + '; '.join(sorted(reasons)) if reasons else ''}"


def _gpu_name(args: argparse.Namespace) -> str | None:
    """The GPU of the database that was named, or the common one of an architecture."""
    from kernellab.machine.chips import chip
    from kernellab.machine.gpus import gpu, gpus

    if args.gpu and args.arch:
        raise UserError("--gpu names a GPU with its architecture: leave --arch out")
    if args.gpu:
        return gpu(args.gpu).name
    if not args.arch:
        return None
    arch = chip(args.arch).arch
    found = [known for known in gpus() if known.arch == arch]
    if not found:
        raise UserError(f"no GPU of {arch} is in the database: --gpu names one; klab device --list shows them")
    return max(found, key=lambda known: known.sms).name


def _record(args: argparse.Namespace, rest: list[str]) -> tuple[Any, Path, bool]:
    """What a run left behind, or what running it now leaves."""
    from kernellab.record.journal import JOURNAL, RUN
    from kernellab.record.reading import load

    path = Path(args.target)
    if (path / JOURNAL).exists() or (path / RUN).exists() or path.name in (JOURNAL, RUN):
        if rest or any((args.impl, args.shape, args.dtype, args.opt, args.device, args.seconds, args.out, args.static)):
            raise UserError(f"{args.target} is a run, explained as it is: give it no dims and no options but --gpu")
        record = load(path)
        _explainable(record, args.target)
        return record, path if path.is_dir() else path.parent, False
    settings = _settings(args, rest)
    journal = begun(args.out, settings, "explain-")
    interrupted = _measure(settings, journal)
    journal.save()
    journal.close()
    return journal.record, journal.folder, interrupted


def _explainable(record: Any, target: str) -> None:
    """`klab inspect` reads machine code alone: what an op has to move, which every rule needs, is not in its runs."""
    read = [entry for entry in record["code"] if entry["kernels"]]
    if record["results"] or not read or any(entry.get("cost") for entry in read):
        return
    asked = [word for word in record["command"][2:3] if not word.startswith("-")]
    again = f"klab explain {(asked or [read[0]['op']])[0]} --static"
    raise UserError(f"{target} has machine code and nothing else: {again} makes a run that can be explained")


def _settings(args: argparse.Namespace, rest: list[str]) -> Settings:
    from kernellab.declaration.targets import resolve
    from kernellab.machine.gpus import gpu
    from kernellab.record.settings import Settings

    _one_op(resolve(args.target))
    args.quick = False
    request = case_request(args, rest)
    name = _gpu_name(args)
    return Settings(
        targets=[absolute(args.target)],
        stages=["explain"] if args.static else ["check", "time", "explain"],
        # Without sizes the first case is meant: one that can be explained in a minute.
        request={**request.to_json(), "quick": not (request.shapes or request.dims)},
        impls=[part.strip() for part in args.impl.split(",")] if args.impl else [],
        archs=[gpu(name).arch] if name else [],
        gpu=name if name and args.gpu else "",  # an architecture is also that of the GPU here
        device=device_in(args.device),
        seconds=positive("--seconds", args.seconds) if args.seconds is not None else None,
        timeout_s=positive("--timeout", args.timeout),
    )


def _one_op(target: Target) -> None:
    """Before anything is measured: explaining is for one op at a time."""
    from kernellab.declaration.catalogue import parse

    if target.file and not target.op:
        names = [entry.name for entry in parse(Path(target.file)).values()]
        if len(names) > 1:
            raise UserError(f"{target.text} declares {', '.join(names)}: name one, {target.text}:{names[0]}")


def _measure(settings: Settings, journal: Journal) -> bool:
    """Check, time and profile what runs here, then read the machine code; says whether it was interrupted."""
    from kernellab.running.parent.inspection import Inspection
    from kernellab.running.parent.runner import Runner

    progress = progress_bar()
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
