"""The traces that `klab profile` recorded into a run's folder, read again from their files.

Pictures are drawn from the traces: pages that lie beside them may be a stranger's and are not shown.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernellab.base import json_files
from kernellab.base.errors import UserError
from kernellab.base.json import JsonObject, JsonValue
from kernellab.reporting.html.parts import label
from kernellab.reporting.report.parts.section import Run
from kernellab.traces.files import read
from kernellab.traces.text_chunks import GZIP_MAGIC
from kernellab.traces.trace import Trace

_MOST_BYTES = 64 << 20  # of a trace: as many are read in a few seconds
_MOST_DOCUMENT_BYTES = 16 << 20
_NAME_CHARACTERS = 120
_MOST_FINDINGS = 5


@dataclass(frozen=True)
class Recording:
    """One trace; without it, `problem` says why it is not shown."""

    name: str
    file: str
    trace: Trace | None = None
    problem: str = ""
    findings: list[str] = field(default_factory=list)


def read_recordings(run: Run, most: int) -> Iterator[Recording]:
    """The first `most` traces of each folder of a run, then the names of the others."""
    for folder in run.folders:
        one = replace(run, folders=[folder])
        content = one.read("profile.json", _MOST_DOCUMENT_BYTES)
        try:
            document = json_files.parse(content) if content else None
        except json_files.Refused:
            continue
        if not isinstance(document, dict):
            continue
        findings = _findings(document)
        for number, (name, file) in enumerate(_files(document.get("collected"))):
            problem = "" if number < most else "it is not shown, to keep the report small"
            recording = Recording(name, file, problem=problem) if problem else _read(one, name, file)
            yield replace(recording, findings=findings.get(file, findings.get("", []) if number == 0 else []))


def _files(sessions: JsonValue) -> Iterator[tuple[str, str]]:
    """The names of all sessions with those of their traces."""
    for session in sessions if isinstance(sessions, list) else ():
        traces = session.get("traces") if isinstance(session, dict) else None
        for file in traces if isinstance(traces, list) else ():
            if isinstance(session, dict) and isinstance(file, str):
                yield label(str(session.get("name", "")), _NAME_CHARACTERS), f"artifacts/{file}"


def _findings(document: JsonObject) -> dict[str, list[str]]:
    """What the analysis found, by file; under the empty name, what it found in the first one."""
    findings = {"": _titles(document.get("findings"))}
    profiles = document.get("profiles")
    for profile in profiles if isinstance(profiles, list) else ():
        analysis = profile.get("document") if isinstance(profile, dict) else None
        if isinstance(profile, dict) and isinstance(analysis, dict):
            findings[f"artifacts/{profile.get('trace')}"] = _titles(analysis.get("findings"))
    return findings


def _titles(findings: JsonValue) -> list[str]:
    entries = findings[:_MOST_FINDINGS] if isinstance(findings, list) else ()
    return [label(str(entry.get("title", ""))) for entry in entries if isinstance(entry, dict)]


def _read(run: Run, name: str, file: str) -> Recording:
    content = run.read(file, _MOST_BYTES)
    if content is None:
        return Recording(name, file, problem=f"it is not in the run's folder, or larger than {_MOST_BYTES >> 20} MiB")
    if content.startswith(GZIP_MAGIC):  # it may become any size
        return Recording(name, file, problem="it is compressed")
    with tempfile.TemporaryDirectory(prefix="kernellab-report-") as folder:
        copy = Path(folder) / "trace"
        copy.write_bytes(content)
        try:
            return Recording(name, file, read(copy))
        except UserError as error:
            return Recording(name, file, problem=error.message.replace(str(copy), "it"))
