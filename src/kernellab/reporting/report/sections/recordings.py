"""Timelines and flame graphs of the traces that were recorded into the run's folder."""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.analysis.stacks import collapse_stacks
from kernellab.reporting.html.parts import label
from kernellab.reporting.pages import flame, timeline
from kernellab.reporting.report.parts.recordings import Recording, read_recordings
from kernellab.reporting.report.parts.section import Run, Section
from kernellab.reporting.text.numbers import count, duration
from kernellab.traces.trace import ON_GPU, Trace

_MOST_TRACES = 4
_MOST_CHARACTERS = 3_000_000  # of all pictures
_FILE_CHARACTERS = 120
_MOST_HEIGHT = 560  # pixels: a picture that is higher scrolls in its frame


@dataclass(frozen=True)
class _Frame:
    """A picture in a frame: where it stands, what it is, and its height in pixels."""

    id: str
    title: str
    height: int


def section(run: Run) -> Section | None:
    recordings = list(read_recordings(run, _MOST_TRACES))
    if not any(recording.trace for recording in recordings):
        return None
    pictures: dict[str, str] = {}
    entries = [_entry(run.prefix, number, recording, pictures) for number, recording in enumerate(recordings)]
    return Section(
        "recordings",
        "Recordings",
        "recordings.html",
        {"recordings": entries},
        data={f"{run.prefix}recordings-pictures": pictures},
        styles=["recordings.css"],
        scripts=["recordings.js"],
        frame_scripts=[timeline.page_script(), flame.page_script()],
    )


def _entry(prefix: str, number: int, recording: Recording, pictures: dict[str, str]) -> dict[str, object]:
    """What the template shows of a trace. Its pictures are added to those of the report as long as there is room."""
    name, file = recording.name, label(recording.file, _FILE_CHARACTERS)
    frames: list[_Frame] = []
    notes = [f"{file}: {recording.problem}."] if recording.problem else []
    trace = recording.trace
    if trace is not None:
        for kind, title, height, document in _draw(trace, name):
            if sum(map(len, pictures.values())) + len(document) > _MOST_CHARACTERS:
                notes.append(f"The {kind} is too large for a report: klab profile {file} in the run's folder draws it.")
                continue
            frame = _Frame(f"{prefix}recording{number}-{len(frames)}", title, height)
            pictures[frame.id] = document
            frames.append(frame)
    facts = f"{duration(trace.span_ns / 1e3)}, {count(len(trace), 'event')}" if trace is not None else ""
    return {
        "name": name,
        "file": file,
        "facts": facts,
        "findings": recording.findings,
        "frames": frames,
        "notes": notes,
    }


def _draw(trace: Trace, name: str) -> list[tuple[str, str, int, str]]:
    """Each picture: its kind, its title, its height, and its document."""
    pictures = [("timeline", f"Timeline of {name}", _MOST_HEIGHT, timeline.page(trace, name))]
    quantities = {"GPU time": collapse_stacks(trace, "gpu")} if len(trace.rows(*ON_GPU)) else {}
    for quantity, stacks in (quantities | {"CPU time": collapse_stacks(trace, "cpu")}).items():
        height = min(flame.height(stacks) + 8, _MOST_HEIGHT)
        page = flame.page(name, stacks, quantity)
        pictures.append((f"flame graph of {quantity}", f"Flame graph of {name}: {quantity}", height, page))
    return pictures
