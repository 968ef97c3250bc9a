"""`klab profile`: where the time of an op, of the MLP, of any script or of a trace goes."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.base.errors import UserError, nearest
from kernellab.cli import profile_counters as counters
from kernellab.cli import profile_programs as programs
from kernellab.cli.begin import begun, folder_for, shown
from kernellab.cli.options import positive

if TYPE_CHECKING:
    from kernellab.running.parent.profiling import Collected

TOOLS = ("nsys", "ncu")
_ENDING = re.compile(r"(\.pt)?(\.trace)?\.(json|sqlite)(\.gz)?$")  # of a trace's name


def arguments(sub: argparse.ArgumentParser, verb: str) -> None:
    sub.usage = "klab profile OP | mlp | SCRIPT.py | -m MODULE [options] [-- the script's own arguments]"
    sub.add_argument("target", nargs="*", help="an op, as for other verbs; mlp, the workload; or a Python script")
    sub.add_argument("-m", dest="module", metavar="MODULE", help="a module to run, as python -m does")
    sub.add_argument("--open", action="store_true", help="the targets are traces: read them, run nothing")
    sub.add_argument("--compare", action="store_true", help="the targets are two traces: what got slower")
    sub.add_argument("--schedule", metavar="W,U,A,R", help="steps of wait, warm-up and active, and how often")
    sub.add_argument("--seconds", type=float, metavar="S", help="record a script for at most so long (default 20)")
    sub.add_argument("--memory", type=float, metavar="GIB", help="that recording a script may take (default 2)")
    sub.add_argument("--no-stacks", action="store_true", help="without Python's calls: less overhead, no source lines")
    sub.add_argument("--ranks", type=int, metavar="N", help="so many processes of the MLP or a script, by torchrun")
    sub.add_argument(
        "--with", dest="tool", metavar="TOOL", help="nsys: record by Nsight Systems; ncu: count by Nsight Compute"
    )
    sub.add_argument("--device", metavar="DEV", help="cpu, cuda or cuda:1 (default: the GPU if there is one)")
    sub.add_argument(
        "--sort", metavar="BY", help="gpu, gpu_total, cpu, cpu_total, count (default gpu, without one cpu)"
    )
    sub.add_argument("--rows", type=int, default=10, metavar="N", help="rows of each table (10)")
    sub.add_argument("--name-width", type=int, default=80, metavar="N", help="characters of a name (80)")
    sub.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/WHEN-profile-NAME)")
    sub.add_argument("--json", action="store_true", help="print one JSON document")
    programs.arguments(sub)
    counters.arguments(sub)
    sub.epilog = "Named dims of an op are options too: --N 1024. Without a GPU the CPU is profiled."


def run(args: argparse.Namespace, rest: list[str]) -> int:
    _refuse(args)
    if counters.opens(args):
        return counters.read(args, rest)
    if args.tool == "ncu" and not (args.open or args.compare):
        return counters.run(args, rest)
    if args.open or args.compare:
        return _read(args, rest)
    made = programs.made(args, rest)
    if isinstance(made, programs.Study):
        return _study(args, made)
    return _collect(args, made)


def _refuse(args: argparse.Namespace) -> None:
    from kernellab.reporting.profiles.summary import SORTS

    if args.sort is not None and args.sort not in SORTS:
        raise UserError(f"--sort {args.sort}: {nearest(args.sort, SORTS)}")
    if args.tool is not None and args.tool not in TOOLS:
        raise UserError(f"--with {args.tool}: {nearest(args.tool, TOOLS)}")
    counters.refuse(args)
    positive("--rows", args.rows)
    positive("--name-width", args.name_width)
    if args.open and args.compare:
        raise UserError("--open reads traces, --compare two of them: one or the other")


# Running -----------------------------------------------------------------------------------------------


def _collect(args: argparse.Namespace, made: programs.Made) -> int:
    from kernellab.record.run_events import ProgramProfiled, RunCompleted
    from kernellab.running.parent import profiling

    folder = Path(args.out) if args.out else profiling.shared_folder(made.name)
    if folder is not None and profiling.rank():  # of several processes that torchrun has started: the first one tells
        (folder / "artifacts").mkdir(parents=True, exist_ok=True)
        return profiling.run(made.program(folder), folder / "artifacts", quiet_stdout=args.json, alone=False).code
    journal = begun(str(folder) if folder else None, made.settings, "profile-")
    traces = journal.folder / "artifacts"
    try:
        program = made.program(journal.folder)
        if args.tool == "nsys":
            collected = profiling.run_nsys(program, traces / "report.sqlite", quiet_stdout=args.json)
        else:
            collected = profiling.run(program, traces, quiet_stdout=args.json)
    except UserError:
        journal.remove()
        raise
    if collected.code == 2 and not collected.traces and not program.as_script:
        journal.remove()  # the request was wrong, as only its process could tell: it has said so
        return 2
    journal.write(ProgramProfiled(code=collected.code, sessions=collected.sessions))
    journal.write(RunCompleted())
    journal.save()
    journal.close()
    return _tell(args, collected, traces, script=program.as_script)


def _tell(args: argparse.Namespace, collected: Collected, folder: Path, *, script: bool) -> int:
    """What there is to show, and the exit code: a script's own, whether or not it could be recorded."""
    from kernellab.reporting.profiles import recording as words

    if not collected.traces:
        if args.json:
            _print_json({"profiles": [], "collected": collected.sessions, "code": collected.code})
        notes = [note for one in collected.sessions for note in (*one["notes"], *words.ended(one))]
        if script and not collected.sessions:
            notes = [
                f"the program left with exit code {collected.code} and no word, as os._exit does: nothing was kept"
            ]
        for line in notes or words.nothing(collected.sessions, collected.code):
            print(f"klab: {line}", file=sys.stderr)
        return collected.code or int(not script)
    profiles = _profiles(args, collected, folder)
    _show(args, profiles, collected, folder.parent)
    failed = any(session.get("status") == "error" for session in collected.sessions)
    return collected.code or int(failed)


def _profiles(args: argparse.Namespace, collected: Collected, folder: Path) -> list[dict[str, Any]]:
    """Each trace with what was asked of it; pictures beside it."""
    from kernellab.analysis.summary import analyse
    from kernellab.reporting.pages import pictures
    from kernellab.reporting.profiles import recording as words
    from kernellab.traces.files import read

    found = []
    for session in collected.sessions:
        for number, name in enumerate(session["traces"], 1):
            trace = read(folder / name)
            drawn = [path.name for path in pictures.draw(trace, folder / name, session["name"])]
            about = {"name": session["name"], "cycle": number, "trace": name, "pictures": drawn}
            document = analyse(trace, plain_step_us=session.get("plain_step_us"))
            document["notes"] = [*words.ended(session), *document["notes"]]
            found.append({**about, "trace_read": trace, "document": document, "session": session})
    return found


def _show(args: argparse.Namespace, profiles: list[dict[str, Any]], collected: Collected, folder: Path) -> None:
    from kernellab.analysis.ranks import ranks
    from kernellab.reporting.profiles import recording as words
    from kernellab.reporting.profiles.summary import lines

    by_rank = [one for one in profiles if one["cycle"] == 1] if "rank" in profiles[0]["session"] else []
    together = ranks([one["trace_read"] for one in by_rank]) if len(by_rank) > 1 else None
    document = _document(profiles, collected, folder, together)
    (folder / "profile.json").write_text(json.dumps(document, indent=1, allow_nan=False))
    if args.json:
        _print_json(document)
        return
    for line in words.ways(collected.sessions):
        print(line)
    for one in words.chosen(profiles):
        for line in [*words.heading(one, len(profiles)), *lines(one["document"], **_table(args))]:
            print(line)
        for line in words.about(one["session"], folder):
            print(line)
        print()
    for line in words.together(together) if together else []:
        print(line)
    for line in words.skipped(collected.sessions):
        print(line)
    print(f"record: {shown(folder)}")


def _table(args: argparse.Namespace) -> dict[str, Any]:
    return {"sort": args.sort, "rows": args.rows, "name_width": args.name_width}


def _document(
    profiles: list[dict[str, Any]], collected: Collected, folder: Path, together: dict[str, Any] | None
) -> dict[str, Any]:
    """The first profile's own document; where there are more, all of them."""
    every = [{k: v for k, v in one.items() if k not in ("trace_read", "session")} for one in profiles]
    document: dict[str, Any] = {**profiles[0]["document"], "folder": shown(folder), "collected": collected.sessions}
    document["code"] = collected.code
    if len(every) > 1:
        document["profiles"] = every
    if together:
        document["ranks"] = together
    return document


def _print_json(document: Any) -> None:
    json.dump(document, sys.stdout, indent=1, allow_nan=False)
    print()


# Reading -----------------------------------------------------------------------------------------------


def _read(args: argparse.Namespace, rest: list[str]) -> int:
    from kernellab.analysis.summary import analyse
    from kernellab.reporting.profiles import recording as words
    from kernellab.reporting.profiles.summary import lines
    from kernellab.traces.files import read_all

    if rest or args.words or args.module:
        raise UserError("a trace is read as it is: give --open and --compare files only, and how to show them")
    if not args.target or (args.compare and len(args.target) != 2):
        raise UserError("klab profile --compare A B takes two traces" if args.compare else "--open: name a trace")
    if args.compare:
        return _compare(args)
    traces = read_all([Path(name) for name in args.target])
    documents = [analyse(trace) for trace in traces]
    together = None
    if len(traces) > 1:
        from kernellab.analysis.ranks import ranks

        together = ranks(traces)
    drawn = _draw(args, traces)
    if args.json:
        more = {"profiles": [{"document": one} for one in documents], "ranks": together} if together else {}
        _print_json({**documents[0], **more, "pictures": drawn})
        return 0
    for number, document in enumerate(documents):
        if together:
            print(f"rank {together['ranks'][number]['rank']}")
        for line in lines(document, **_table(args)):
            print(line)
        print()
    for line in words.together(together) if together else []:
        print(line)
    if drawn:
        print(f"pictures: {', '.join(drawn)}")
    return 0


def _draw(args: argparse.Namespace, traces: list[Any]) -> list[str]:
    """Pictures of traces that are somebody else's only where somebody says where to."""
    if not args.out:
        return []
    from kernellab.reporting.pages import pictures

    folder = folder_for(args.out)
    names = [_ENDING.sub("", Path(name).name) for name in args.target]
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
    for line in lines(document, rows=args.rows, name_width=args.name_width):
        print(line)
    return 0


# Scaling -----------------------------------------------------------------------------------------------


def _study(args: argparse.Namespace, study: programs.Study) -> int:
    from kernellab.reporting.profiles import scaling as scaled
    from kernellab.running.parent import profiling

    journal = begun(args.out, study.settings, "profile-")
    curves = []
    try:
        for by, program in study.programs(journal.folder):
            print(f"timing the MLP over {by}", file=sys.stderr)
            curves.append(profiling.timed(program, journal.folder / "artifacts", by, quiet_stdout=args.json))
    except UserError:
        journal.remove()
        raise
    from kernellab.record.run_events import RunCompleted, ScalingMeasured

    journal.write(ScalingMeasured(setup=study.setup, curves=curves))
    journal.write(RunCompleted())
    journal.save()
    journal.close()
    document = scaled.document(study.setup, curves)
    if args.json:
        _print_json({**document, "folder": shown(journal.folder)})
        return 0
    for line in scaled.lines(document):
        print(line)
    print(f"record: {shown(journal.folder)}")
    return 0
