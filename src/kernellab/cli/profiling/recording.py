"""`klab profile PROGRAM`: runs a program under a profiler, analyses its traces and shows the results."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.base.paths import replace_file
from kernellab.cli.options import print_json
from kernellab.cli.profiling.traces import table_options
from kernellab.cli.run_folder import create_journal, display_path

if TYPE_CHECKING:
    from kernellab.analysis.ranks import RanksDocument
    from kernellab.cli.profiling.programs import PlannedProgram, SizeStudy
    from kernellab.reporting.profiles.recording import TraceProfile
    from kernellab.running.parent.profiling import ProgramOutcome


def run(args: argparse.Namespace, planned: PlannedProgram) -> int:
    from kernellab.record.run_events import ProgramProfiled, RunCompleted
    from kernellab.running.parent import nsight_systems, profiling

    folder = Path(args.out) if args.out else profiling.shared_folder(planned.name)
    if folder is not None and profiling.own_rank():  # torchrun started several processes; the first one reports
        (folder / "artifacts").mkdir(parents=True, exist_ok=True)
        program = planned.program(folder)
        return profiling.run(program, folder / "artifacts", quiet_stdout=args.json, reads_reports=False).exit_code
    journal = create_journal(str(folder) if folder else None, planned.settings, "profile-")
    artifacts = journal.folder / "artifacts"
    try:
        program = planned.program(journal.folder)
        if args.tool == "nsys":
            collected = nsight_systems.run(program, artifacts / "report.sqlite", quiet_stdout=args.json)
        else:
            collected = profiling.run(program, artifacts, quiet_stdout=args.json)
    except UserError:
        journal.remove()
        raise
    if collected.exit_code == 2 and not collected.traces and not program.as_script:
        journal.remove()  # the request was wrong; the program has printed why
        return 2
    journal.write(ProgramProfiled(code=collected.exit_code, sessions=collected.sessions))
    journal.write(RunCompleted())
    journal.save()
    journal.close()
    if not collected.traces:
        return _report_no_trace(args, collected, script=program.as_script)
    _report(args, _analyse(collected, artifacts), collected, journal.folder)
    failed = any(session.get("status") == "error" for session in collected.sessions)
    return collected.exit_code or int(failed)


def _report_no_trace(args: argparse.Namespace, collected: ProgramOutcome, *, script: bool) -> int:
    """Says why there is no trace. Returns the exit code: for a script, its own."""
    from kernellab.reporting.profiles import recording

    if args.json:
        print_json({"profiles": [], "collected": collected.sessions, "code": collected.exit_code})
    notes = [
        note for session in collected.sessions for note in (*session["notes"], *recording.early_end_lines(session))
    ]
    if script and not collected.sessions:
        notes = [
            f"the program ended with exit code {collected.exit_code} before its trace was written, as os._exit does: "
            "nothing was kept"
        ]
    for line in notes or recording.nothing_recorded_lines(collected.sessions, collected.exit_code):
        print(f"klab: {line}", file=sys.stderr)
    return collected.exit_code or int(not script)


def _analyse(collected: ProgramOutcome, folder: Path) -> list[TraceProfile]:
    """Every trace, analysed, with pictures drawn beside it."""
    from kernellab.analysis.document import analyse
    from kernellab.reporting.pages import pictures
    from kernellab.reporting.profiles.recording import TraceProfile, early_end_lines
    from kernellab.traces.files import read

    profiles = []
    for session in collected.sessions:
        for cycle, name in enumerate(session["traces"], 1):
            trace = read(folder / name)
            drawn = [path.name for path in pictures.draw(trace, folder / name, session["name"])]
            document = analyse(trace, plain_step_us=session.get("plain_step_us"))
            document["notes"] = [*early_end_lines(session), *document["notes"]]
            profiles.append(TraceProfile(session, cycle, name, drawn, trace, document))
    return profiles


def _report(args: argparse.Namespace, profiles: list[TraceProfile], collected: ProgramOutcome, folder: Path) -> None:
    from kernellab.analysis.ranks import compare_ranks
    from kernellab.reporting.profiles import ranks, recording
    from kernellab.reporting.profiles.summary import lines

    by_rank = [profile for profile in profiles if profile.cycle == 1] if "rank" in profiles[0].session else []
    across_ranks = compare_ranks([profile.trace for profile in by_rank]) if len(by_rank) > 1 else None
    document = _document(profiles, collected, folder, across_ranks)
    replace_file(folder / "profile.json", json.dumps(document, indent=1, allow_nan=False).encode())
    if args.json:
        print_json(document)
        return
    for line in recording.impl_time_lines(collected.sessions):
        print(line)
    for profile in recording.select_profiles(profiles):
        for line in recording.heading_lines(profile, len(profiles)):
            print(line)
        for line in lines(profile.document, **table_options(args)):
            print(line)
        for line in recording.recording_lines(profile.session, folder):
            print(line)
        print()
    for line in ranks.lines(across_ranks) if across_ranks else []:
        print(line)
    for line in recording.skipped_lines(collected.sessions):
        print(line)
    print(f"record: {display_path(folder)}")


def _document(
    profiles: list[TraceProfile], collected: ProgramOutcome, folder: Path, across_ranks: RanksDocument | None
) -> dict[str, object]:
    """The document of the first profile; where there are more, all of them too."""
    document: dict[str, object] = {
        **profiles[0].document,
        "folder": display_path(folder),
        "collected": collected.sessions,
        "code": collected.exit_code,
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
            curves.append(
                profiling.time_sizes(program, journal.folder / "artifacts", size_name, quiet_stdout=args.json)
            )
    except UserError:
        journal.remove()
        raise
    journal.write(ScalingMeasured(setup=study.setup.to_json(), curves=curves))
    journal.write(RunCompleted())
    journal.save()
    journal.close()
    fitted = scaling.fit_curves(study.setup, curves)
    if args.json:
        print_json({**fitted.to_json(), "folder": display_path(journal.folder)})
        return 0
    for line in scaling.lines(fitted):
        print(line)
    print(f"record: {display_path(journal.folder)}")
    return 0
