"""`klab profile PROGRAM`: runs a program under a profiler, analyses its traces and shows what they say."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.base.errors import UserError
from kernellab.cli.options import print_json
from kernellab.cli.profile_traces import table_options
from kernellab.cli.run_folder import create_journal, display_path

if TYPE_CHECKING:
    from kernellab.analysis.document import ProfileDocument
    from kernellab.analysis.ranks import RanksDocument
    from kernellab.cli.profile_programs import PlannedProgram, SizeStudy
    from kernellab.running.parent.profiling import Collected
    from kernellab.traces.trace import Trace


@dataclass(frozen=True)
class Profile:
    """One trace of a profiled program, analysed. A session leaves one trace for each cycle of its schedule."""

    session: dict[str, Any]
    cycle: int
    file: str
    pictures: list[str]
    trace: Trace
    document: ProfileDocument

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.session["name"],
            "cycle": self.cycle,
            "trace": self.file,
            "pictures": self.pictures,
            "document": self.document,
        }


def run(args: argparse.Namespace, planned: PlannedProgram) -> int:
    from kernellab.record.run_events import ProgramProfiled, RunCompleted
    from kernellab.running.parent import profiling

    folder = Path(args.out) if args.out else profiling.shared_folder(planned.name)
    if folder is not None and profiling.rank():  # torchrun started several processes; the first one reports
        (folder / "artifacts").mkdir(parents=True, exist_ok=True)
        program = planned.program(folder)
        return profiling.run(program, folder / "artifacts", quiet_stdout=args.json, alone=False).code
    journal = create_journal(str(folder) if folder else None, planned.settings, "profile-")
    artifacts = journal.folder / "artifacts"
    try:
        program = planned.program(journal.folder)
        if args.tool == "nsys":
            collected = profiling.run_nsys(program, artifacts / "report.sqlite", quiet_stdout=args.json)
        else:
            collected = profiling.run(program, artifacts, quiet_stdout=args.json)
    except UserError:
        journal.remove()
        raise
    if collected.code == 2 and not collected.traces and not program.as_script:
        journal.remove()  # the request was wrong, which only the program could find out; it has printed why
        return 2
    journal.write(ProgramProfiled(code=collected.code, sessions=collected.sessions))
    journal.write(RunCompleted())
    journal.save()
    journal.close()
    if not collected.traces:
        return _report_nothing(args, collected, script=program.as_script)
    _report(args, _analyse(collected, artifacts), collected, journal.folder)
    failed = any(session.get("status") == "error" for session in collected.sessions)
    return collected.code or int(failed)


def _report_nothing(args: argparse.Namespace, collected: Collected, *, script: bool) -> int:
    """Why there is no trace; returns the exit code, which is a script's own."""
    from kernellab.reporting.profiles import recording

    if args.json:
        print_json({"profiles": [], "collected": collected.sessions, "code": collected.code})
    notes = [note for session in collected.sessions for note in (*session["notes"], *recording.ended(session))]
    if script and not collected.sessions:
        notes = [f"the program ended at once with exit code {collected.code}, as os._exit does: nothing was kept"]
    for line in notes or recording.nothing(collected.sessions, collected.code):
        print(f"klab: {line}", file=sys.stderr)
    return collected.code or int(not script)


def _analyse(collected: Collected, folder: Path) -> list[Profile]:
    """Every trace, analysed, with pictures drawn beside it."""
    from kernellab.analysis.document import analyse
    from kernellab.reporting.pages import trace as pictures
    from kernellab.reporting.profiles import recording
    from kernellab.traces.files import read

    profiles = []
    for session in collected.sessions:
        for cycle, name in enumerate(session["traces"], 1):
            trace = read(folder / name)
            drawn = [path.name for path in pictures.draw(trace, folder / name, session["name"])]
            document = analyse(trace, plain_step_us=session.get("plain_step_us"))
            document["notes"] = [*recording.ended(session), *document["notes"]]
            profiles.append(Profile(session, cycle, name, drawn, trace, document))
    return profiles


def _report(args: argparse.Namespace, profiles: list[Profile], collected: Collected, folder: Path) -> None:
    from kernellab.analysis.ranks import compare_ranks
    from kernellab.reporting.profiles import recording
    from kernellab.reporting.profiles.summary import lines

    by_rank = [profile for profile in profiles if profile.cycle == 1] if "rank" in profiles[0].session else []
    across_ranks = compare_ranks([profile.trace for profile in by_rank]) if len(by_rank) > 1 else None
    document = _document(profiles, collected, folder, across_ranks)
    (folder / "profile.json").write_text(json.dumps(document, indent=1, allow_nan=False))
    if args.json:
        print_json(document)
        return
    for line in recording.ways(collected.sessions):
        print(line)
    shown = [{**profile.to_json(), "session": profile.session} for profile in profiles]
    for profile in recording.chosen(shown):
        for line in [*recording.heading(profile, len(profiles)), *lines(profile["document"], **table_options(args))]:
            print(line)
        for line in recording.about(profile["session"], folder):
            print(line)
        print()
    for line in recording.together(across_ranks) if across_ranks else []:
        print(line)
    for line in recording.skipped(collected.sessions):
        print(line)
    print(f"record: {display_path(folder)}")


def _document(
    profiles: list[Profile], collected: Collected, folder: Path, across_ranks: RanksDocument | None
) -> dict[str, Any]:
    """The document of the first profile; where there are more, all of them too."""
    document = {
        **profiles[0].document,
        "folder": display_path(folder),
        "collected": collected.sessions,
        "code": collected.code,
    }
    if len(profiles) > 1:
        document["profiles"] = [profile.to_json() for profile in profiles]
    if across_ranks:
        document["ranks"] = across_ranks
    return document


def run_study(args: argparse.Namespace, study: SizeStudy) -> int:
    """Times the MLP over sizes, without a profiler."""
    from kernellab.record.run_events import RunCompleted, ScalingMeasured
    from kernellab.reporting.profiles import scaling
    from kernellab.running.parent import profiling

    journal = create_journal(args.out, study.settings, "profile-")
    curves = []
    try:
        for size_name, program in study.programs(journal.folder):
            print(f"timing the MLP over {size_name}", file=sys.stderr)
            curves.append(profiling.timed(program, journal.folder / "artifacts", size_name, quiet_stdout=args.json))
    except UserError:
        journal.remove()
        raise
    journal.write(ScalingMeasured(setup=study.setup, curves=curves))
    journal.write(RunCompleted())
    journal.save()
    journal.close()
    document = scaling.document(study.setup, curves)
    if args.json:
        print_json({**document, "folder": display_path(journal.folder)})
        return 0
    for line in scaling.lines(document):
        print(line)
    print(f"record: {display_path(journal.folder)}")
    return 0
