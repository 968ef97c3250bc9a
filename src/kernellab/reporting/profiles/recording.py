"""The lines around a profile: times of implementations, which steps were recorded, what recording cost, which files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernellab.analysis.document import ProfileDocument
from kernellab.profiler.protocol import PhaseSteps, SessionReport
from kernellab.reporting.text import numbers as words
from kernellab.reporting.text.layout import Layout
from kernellab.traces.trace import Trace


@dataclass(frozen=True)
class TraceProfile:
    """One trace of a session, with its analysis. `cycle` counts the session's traces from 1."""

    session: SessionReport
    cycle: int
    file: str
    pictures: list[str]
    trace: Trace
    document: ProfileDocument

    @property
    def name(self) -> str:
        return self.session["name"]

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "cycle": self.cycle,
            "trace": self.file,
            "pictures": self.pictures,
            "document": self.document,
        }


def select_profiles(profiles: Sequence[TraceProfile]) -> list[TraceProfile]:
    """The profiles to show: the last cycle of each name, the warmest; of several ranks the first."""
    last = list({profile.name: profile for profile in profiles}.values())
    return last[:1] if all("rank" in profile.session for profile in last) else last


def impl_time_lines(sessions: Sequence[SessionReport]) -> list[str]:
    """The time of a call of each of an op's implementations, the fastest first. `klab bench` is more precise."""
    timed = [(time_us, s) for s in sessions if "impl" in s and (time_us := s.get("plain_step_us"))]
    if len(timed) < 2:
        return []
    timed.sort(key=lambda pair: pair[0])
    width = max(len(session["impl"]) for _, session in timed)
    first = timed[0][1]
    lines = [f"{first['op']} {words.case_label(first['case'])}: time of a call without the profiler"]
    lines += [f"  {session['impl']:<{width}}  {words.duration(time_us)}" for time_us, session in timed]
    return [*lines, ""]


def heading_lines(profile: TraceProfile, profile_count: int) -> list[str]:
    """The name of a profile, if there are several."""
    if profile_count == 1:
        return []
    cycles = len(profile.session["traces"])
    cycle = f", cycle {profile.cycle} of {cycles}" if cycles > 1 else ""
    return [f"── {profile.name}{cycle} ──"]


def early_end_lines(session: SessionReport) -> list[str]:
    """Says that the program did not reach its end. This line comes before all others about the session."""
    ended = session.get("ended")
    return [f"The program ended early, by {ended}: only what was recorded until then is shown."] if ended else []


def recording_lines(session: SessionReport, folder: Path) -> list[str]:
    """Below the tables: steps by phase, the overhead of recording, memory, notes and files."""
    lines = []
    if session.get("steps"):
        lines.append(f"steps: {'; '.join(map(_phase, session['steps']))}")
    lines += _overhead_lines(session)
    trained = session.get("trained")
    if trained:
        owner = "on the GPU" if trained["device"].startswith("cuda") else "of the process"
        lines.append(f"peak memory: {words.memory(trained['peak_bytes'])} {owner}")
    lines += [f"note: {note}" for note in session["notes"]]
    for name in session["traces"]:
        path = folder / "artifacts" / name
        pictures = [picture.name for suffix in (".html", ".svg") if (picture := path.with_suffix(suffix)).exists()]
        lines.append(f"trace: {'  '.join([name, *pictures])}")
    return Layout().sentences(lines)


def _phase(steps: PhaseSteps) -> str:
    first, last = steps["first"], steps["last"]
    cycle = f" (cycle {steps['cycle']})" if steps["phase"] == "active" else ""
    return f"{first if first == last else f'{first}–{last}'} {steps['phase']}{cycle}"


def _overhead_lines(session: SessionReport) -> list[str]:
    recorded_us, plain_us = session.get("step_us"), session.get("plain_step_us")
    if not recorded_us:
        return []
    if not plain_us:
        return [f"a step took {words.duration(recorded_us)} while recorded; it was not timed without recording"]
    change = recorded_us / plain_us - 1
    percent = f"{100 * change:.0f} % more" if change >= 0 else f"{-100 * change:.0f} % less"
    times = f"{words.duration(recorded_us)} recorded, {words.duration(plain_us)} not recorded"
    return [f"overhead: a step took {times}: {percent}"]


def skipped_lines(sessions: Sequence[SessionReport]) -> list[str]:
    """The implementations of an op that have no trace, and why."""
    return [
        f"{session['impl']}: {status}, {session['reason']}"
        for session in sessions
        if (status := session.get("status", "ok")) != "ok"
    ]


def nothing_recorded_lines(sessions: Sequence[SessionReport], exit_code: int) -> list[str]:
    """Why there is no trace."""
    skipped = skipped_lines(sessions)
    if skipped:
        return ["nothing was profiled", *skipped]
    if exit_code:
        return [f"the program ended with exit code {exit_code} before anything was recorded"]
    return ["the program ended before anything was recorded: it exited early, or had too few steps"]
