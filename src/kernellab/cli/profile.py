"""`klab profile`: where the time of an op, of the MLP, of a script or of a recorded trace goes."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError, nearest
from kernellab.cli import profile_counters as counters
from kernellab.cli import profile_programs as programs
from kernellab.cli.begin import begun, folder_for, shown
from kernellab.cli.options import positive

if TYPE_CHECKING:
    from kernellab.analysis.ranks import RanksDocument
    from kernellab.reporting.profiles.recording import TraceProfile
    from kernellab.running.parent.profiling import Collected
    from kernellab.traces.trace import Trace

TOOLS = ("nsys", "ncu")
_TRACE_SUFFIXES = re.compile(r"(\.pt)?(\.trace)?\.(json|sqlite)(\.gz)?$")


def arguments(sub: argparse.ArgumentParser, verb: str) -> None:
    sub.usage = "klab profile OP | mlp | SCRIPT.py | -m MODULE [options] [-- arguments of the script]"
    sub.add_argument("target", nargs="*", help="an op, as for other verbs; mlp, the workload; or a Python script")
    sub.add_argument("-m", dest="module", metavar="MODULE", help="a module to run, as python -m does")
    sub.add_argument("--open", action="store_true", help="the targets are traces: read them and run nothing")
    sub.add_argument("--compare", action="store_true", help="the targets are two traces: show what got slower")
    sub.add_argument("--schedule", metavar="W,U,A,R", help="steps of wait, warm-up and active; number of cycles")
    sub.add_argument("--seconds", type=float, metavar="S", help="the longest recording of a script (default 20)")
    sub.add_argument("--memory", type=float, metavar="GIB", help="the most memory for recording a script (default 2)")
    sub.add_argument("--no-stacks", action="store_true", help="no Python calls: less overhead, no source lines")
    sub.add_argument("--ranks", type=int, metavar="N", help="run the MLP or a script in N processes, by torchrun")
    sub.add_argument(
        "--with", dest="tool", metavar="TOOL", help="nsys: record with Nsight Systems; ncu: count with Nsight Compute"
    )
    sub.add_argument("--device", metavar="DEV", help="cpu, cuda or cuda:1 (default: the GPU if there is one)")
    sub.add_argument(
        "--sort", metavar="BY", help="gpu, gpu_total, cpu, cpu_total, count (default gpu, without a GPU cpu)"
    )
    sub.add_argument("--rows", type=int, default=10, metavar="N", help="rows of each table (10)")
    sub.add_argument("--name-width", type=int, default=80, metavar="N", help="characters of a name (80)")
    sub.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/WHEN-profile-NAME)")
    sub.add_argument("--json", action="store_true", help="print one JSON document")
    programs.arguments(sub)
    counters.arguments(sub)
    sub.epilog = "Named dims of an op are options too: --N 1024. Without a GPU the CPU is profiled."


def run(args: argparse.Namespace, rest: list[str]) -> int:
    _validate(args)
    if counters.opens_reports(args):
        return counters.read(args, rest)
    if args.tool == "ncu" and not (args.open or args.compare):
        return counters.run(args, rest)
    if args.open or args.compare:
        return _read(args, rest)
    plan = programs.plan(args, rest)
    if isinstance(plan, programs.SizeStudy):
        return _time_sizes(args, plan)
    return _profile(args, plan)


def _validate(args: argparse.Namespace) -> None:
    from kernellab.reporting.profiles.summary import SORTS

    if args.sort is not None and args.sort not in SORTS:
        raise UserError(f"--sort {args.sort}: {nearest(args.sort, SORTS)}")
    if args.tool is not None and args.tool not in TOOLS:
        raise UserError(f"--with {args.tool}: {nearest(args.tool, TOOLS)}")
    counters.validate(args)
    positive("--rows", args.rows)
    positive("--name-width", args.name_width)
    if args.open and args.compare:
        raise UserError("--open reads traces and --compare compares two: give one of them")


# Running -----------------------------------------------------------------------------------------------


def _profile(args: argparse.Namespace, plan: programs.ProgramPlan) -> int:
    from kernellab.record.run_events import ProgramProfiled, RunCompleted
    from kernellab.running.parent import nsight_systems, profiling

    folder = Path(args.out) if args.out else profiling.shared_folder(plan.name)
    if folder is not None and profiling.own_rank():  # one of torchrun's processes: the first one reports for all
        traces = folder / "artifacts"
        traces.mkdir(parents=True, exist_ok=True)
        return profiling.run(plan.program(folder), traces, quiet_stdout=args.json, reads_reports=False).exit_code
    journal = begun(str(folder) if folder else None, plan.settings, "profile-")
    traces = journal.folder / "artifacts"
    try:
        program = plan.program(journal.folder)
        if args.tool == "nsys":
            collected = nsight_systems.run(program, traces / "report.sqlite", quiet_stdout=args.json)
        else:
            collected = profiling.run(program, traces, quiet_stdout=args.json)
    except UserError:
        journal.remove()
        raise
    if collected.exit_code == 2 and not collected.traces and not program.as_script:
        journal.remove()  # the request was wrong, which only the process could see: it has printed why
        return 2
    journal.write(ProgramProfiled(code=collected.exit_code, sessions=collected.sessions))
    journal.write(RunCompleted())
    journal.save()
    journal.close()
    return _report(args, collected, traces, script=program.as_script)


def _report(args: argparse.Namespace, collected: Collected, folder: Path, *, script: bool) -> int:
    """Print the profiles. Returns the exit code: a script's own, whether or not it could be recorded."""
    from kernellab.reporting.profiles import recording

    if not collected.traces:
        if args.json:
            _print_json({"profiles": [], "collected": collected.sessions, "code": collected.exit_code})
        notes = [note for one in collected.sessions for note in (*one["notes"], *recording.early_end_lines(one))]
        if script and not collected.sessions:
            notes = [f"the program exited with code {collected.exit_code}, as os._exit does: nothing was kept"]
        for line in notes or recording.nothing_recorded_lines(collected.sessions, collected.exit_code):
            print(f"klab: {line}", file=sys.stderr)
        return collected.exit_code or int(not script)
    profiles = _analyse(collected, folder)
    _show(args, profiles, collected, folder.parent)
    failed = any(session.get("status") == "error" for session in collected.sessions)
    return collected.exit_code or int(failed)


def _analyse(collected: Collected, folder: Path) -> list[TraceProfile]:
    """Each trace with its analysis; pictures are drawn beside it."""
    from kernellab.analysis.document import analyse
    from kernellab.reporting.pages import pictures
    from kernellab.reporting.profiles.recording import TraceProfile, early_end_lines
    from kernellab.traces.files import read

    profiles = []
    for session in collected.sessions:
        for cycle, file in enumerate(session["traces"], 1):
            trace = read(folder / file)
            drawn = [path.name for path in pictures.draw(trace, folder / file, session["name"])]
            document = analyse(trace, plain_step_us=session.get("plain_step_us"))
            document["notes"] = [*early_end_lines(session), *document["notes"]]
            profiles.append(TraceProfile(session, cycle, file, drawn, trace, document))
    return profiles


def _show(args: argparse.Namespace, profiles: list[TraceProfile], collected: Collected, folder: Path) -> None:
    from kernellab.analysis.ranks import compare_ranks
    from kernellab.reporting.profiles import ranks as rank_lines
    from kernellab.reporting.profiles import recording
    from kernellab.reporting.profiles.summary import lines

    by_rank = [one for one in profiles if one.cycle == 1] if "rank" in profiles[0].session else []
    rank_document = compare_ranks([one.trace for one in by_rank]) if len(by_rank) > 1 else None
    document = _document(profiles, collected, folder, rank_document)
    (folder / "profile.json").write_text(json.dumps(document, indent=1, allow_nan=False))
    if args.json:
        _print_json(document)
        return
    _print_lines(recording.impl_time_lines(collected.sessions))
    for profile in recording.select_profiles(profiles):
        _print_lines(recording.heading_lines(profile, len(profiles)))
        _print_lines(lines(profile.document, sort=args.sort, rows=args.rows, name_width=args.name_width))
        _print_lines(recording.recording_lines(profile.session, folder))
        print()
    if rank_document:
        _print_lines(rank_lines.lines(rank_document))
    _print_lines(recording.skipped_lines(collected.sessions))
    print(f"record: {shown(folder)}")


def _document(
    profiles: list[TraceProfile], collected: Collected, folder: Path, rank_document: RanksDocument | None
) -> dict[str, object]:
    """The first profile's own document; if there are more, all of them."""
    document: dict[str, object] = {**profiles[0].document, "folder": shown(folder), "collected": collected.sessions}
    document["code"] = collected.exit_code
    if len(profiles) > 1:
        document["profiles"] = [one.to_json() for one in profiles]
    if rank_document:
        document["ranks"] = rank_document
    return document


def _print_json(document: object) -> None:
    json.dump(document, sys.stdout, indent=1, allow_nan=False)
    print()


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        print(line)


# Reading -----------------------------------------------------------------------------------------------


def _read(args: argparse.Namespace, rest: list[str]) -> int:
    from kernellab.analysis.document import analyse
    from kernellab.analysis.ranks import compare_ranks
    from kernellab.reporting.profiles import ranks as rank_lines
    from kernellab.reporting.profiles.summary import lines
    from kernellab.traces.files import read_all

    if rest or args.words or args.module:
        raise UserError("--open and --compare take only trace files and options for showing them")
    if not args.target or (args.compare and len(args.target) != 2):
        raise UserError("klab profile --compare A B takes two traces" if args.compare else "--open: name a trace")
    if args.compare:
        return _compare(args)
    traces = read_all([Path(name) for name in args.target])
    documents = [analyse(trace) for trace in traces]
    rank_document = compare_ranks(traces) if len(traces) > 1 else None
    drawn = _draw(args, traces)
    if args.json:
        every = {"profiles": [{"document": one} for one in documents], "ranks": rank_document}
        _print_json({**documents[0], **(every if rank_document else {}), "pictures": drawn})
        return 0
    for number, document in enumerate(documents):
        if rank_document:
            print(f"rank {rank_document['ranks'][number]['rank']}")
        _print_lines(lines(document, sort=args.sort, rows=args.rows, name_width=args.name_width))
        print()
    if rank_document:
        _print_lines(rank_lines.lines(rank_document))
    if drawn:
        print(f"pictures: {', '.join(drawn)}")
    return 0


def _draw(args: argparse.Namespace, traces: Sequence[Trace]) -> list[str]:
    """Pictures of opened traces are drawn only into a folder that the user names."""
    if not args.out:
        return []
    from kernellab.reporting.pages import pictures

    folder = folder_for(args.out)
    names = [_TRACE_SUFFIXES.sub("", Path(name).name) for name in args.target]
    unique = [name if names.count(name) == 1 else f"{name}-{at}" for at, name in enumerate(names)]
    return [
        str(path)
        for trace, name in zip(traces, unique, strict=True)
        for path in pictures.draw(trace, folder / f"{name}.json", name)
    ]


def _compare(args: argparse.Namespace) -> int:
    from kernellab.analysis.comparison import compare
    from kernellab.reporting.profiles.comparison import lines
    from kernellab.traces.files import read

    before, after = (read(Path(name)) for name in args.target)
    document = compare(before, after)
    if args.json:
        _print_json(document)
        return 0
    _print_lines(lines(document, rows=args.rows, name_width=args.name_width))
    return 0


# Timing over sizes -------------------------------------------------------------------------------------


def _time_sizes(args: argparse.Namespace, study: programs.SizeStudy) -> int:
    from kernellab.record.run_events import RunCompleted, ScalingMeasured
    from kernellab.reporting.profiles import scaling
    from kernellab.running.parent import profiling

    journal = begun(args.out, study.settings, "profile-")
    curves = []
    try:
        for by, program in study.programs(journal.folder):
            print(f"timing the MLP over {by}", file=sys.stderr)
            curves.append(profiling.time_sizes(program, journal.folder / "artifacts", by, quiet_stdout=args.json))
    except UserError:
        journal.remove()
        raise
    journal.write(ScalingMeasured(setup=study.setup.to_json(), curves=curves))
    journal.write(RunCompleted())
    journal.save()
    journal.close()
    fitted = scaling.fit_curves(study.setup, curves)
    if args.json:
        _print_json({**fitted.to_json(), "folder": shown(journal.folder)})
        return 0
    _print_lines(scaling.lines(fitted))
    print(f"record: {shown(journal.folder)}")
    return 0
