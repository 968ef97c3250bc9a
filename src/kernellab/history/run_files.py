"""Which files in a run's folder are kernellab's: those with names that it writes, or that the run's record names.

Everything else is somebody's own. docs/record.md describes the folder.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.json import JsonValue
from kernellab.base.json_files import Refused, parse, read_bytes
from kernellab.base.paths import file_name
from kernellab.machine.tools import SANITIZERS
from kernellab.record.journal import JOURNAL, RUN
from kernellab.record.reading import load
from kernellab.record.schema import Record

_FILES = frozenset((JOURNAL, RUN, "report.html", "profile.json", "counters.json", "counters.csv"))
_HALF_WRITTEN = re.compile(r"\.(run\.json|report\.html)\.\d+")  # of a process that was killed meanwhile
_LOGS = re.compile(r"worker-(\d+-(native|interpreter|profiler)|sm_\d+\w?|cpu)\.log")
_VERIFICATION = re.compile(r"verify-\d+")  # a run of `klab tune` within its run
_ARTIFACTS = "artifacts"
_NAMED = re.compile(rf"{_ARTIFACTS}/([^/\x00]+)")
_PICTURES = (".html", ".svg", ".txt", "-cpu.svg", "-cpu.txt", ".speedscope.json")  # of a trace
_COUNTED = (".ncu-rep", ".json", ".log", ".raw.csv", ".details.csv")  # of a report of Nsight Compute
_RECORDED = (".nsys-rep", ".sqlite")  # by Nsight Systems


@dataclass
class RunFiles:
    """What a run's folder holds: kernellab's files and folders, and the names of what is not kernellab's."""

    files: list[Path] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)  # a folder after what it holds
    foreign: list[str] = field(default_factory=list)


def files_of(folder: Path) -> RunFiles:
    """The files of a run. Raises UserError where the folder holds no run that can be read."""
    record = load(folder)
    found = RunFiles()
    _add_run(folder, record, found, "")
    return found


def _add_run(folder: Path, record: Record, found: RunFiles, prefix: str) -> None:
    curves = _curves(record)
    # The record comes last: a run that can be removed only in part remains a run.
    for entry in sorted(_entries(folder), key=lambda entry: entry.name in (JOURNAL, RUN)):
        name = entry.name
        if entry.is_dir(follow_symlinks=False):
            if name == _ARTIFACTS:
                _add_artifacts(folder, record, found, f"{prefix}{name}/")
                continue
            if not prefix and _VERIFICATION.fullmatch(name):
                with contextlib.suppress(UserError):
                    _add_run(folder / name, load(folder / name), found, f"{name}/")
                    continue
            found.foreign.append(f"{prefix}{name}/")
        elif entry.is_file(follow_symlinks=False) and (
            name in _FILES or _HALF_WRITTEN.fullmatch(name) or (curves is not None and curves.fullmatch(name))
        ):
            found.files.append(folder / name)
        else:
            found.foreign.append(prefix + name)
    found.folders.append(folder)


def _add_artifacts(run: Path, record: Record, found: RunFiles, prefix: str) -> None:
    names = _artifacts(run, record)
    for entry in _entries(run / _ARTIFACTS):
        if entry.is_file(follow_symlinks=False) and (entry.name in names or _LOGS.fullmatch(entry.name)):
            found.files.append(Path(entry.path))
        else:
            found.foreign.append(f"{prefix}{entry.name}{'/' if entry.is_dir(follow_symlinks=False) else ''}")
    found.folders.append(run / _ARTIFACTS)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise UserError(f"{folder} cannot be listed: {error.strerror}") from None


def _curves(record: Record) -> re.Pattern[str] | None:
    """The names of curves: op, swept dim, dtype and what tells two sweeps apart."""
    swept = {
        f"{re.escape(result['op'])}-{re.escape(dim)}-{re.escape(result['case']['dtype'])}"
        for result in record["results"]
        for dim in result["case"]["dims"]
    }
    stems = "|".join(sorted(swept))
    return re.compile(rf"(curves|scaling)-({stems})(-[\w.-]+)?\.(csv|json|png|svg)") if stems else None


def _artifacts(run: Path, record: Record) -> set[str]:
    """The names that the record, the profile and the counters name, and those made of ops and implementations."""
    names = {match[1] for text in _texts(dict(record)) if (match := _NAMED.fullmatch(text))}
    for op, impl in {(result["op"], result["impl"]) for result in record["results"]}:
        subject = f"{file_name(op)}-{file_name(impl)}"
        names |= {f"reproduce-{subject}.py", *(f"sanitize-{subject}-{tool}.txt" for tool in SANITIZERS)}
    for trace in _texts(_values(_document(run / "profile.json"), "traces")):
        stem = trace.rpartition(".")[0]
        names |= {trace, f".{trace}", *(stem + ending for ending in (*_PICTURES, *_RECORDED))}
    counters = _document(run / "counters.json")
    for report in _texts(_values(counters, "report")):
        names |= {report.removesuffix(_COUNTED[0]) + ending for ending in _COUNTED}
    for op in _texts(_values(counters, "op")):
        for impl in _texts(_values(counters, "impl")):
            names |= {f"{file_name(op)}-{file_name(impl)}{ending}" for ending in _COUNTED}
    return names


def _document(file: Path) -> JsonValue:
    try:
        return parse(read_bytes(file))
    except (OSError, Refused):
        return None


def _values(document: object, key: str) -> list[object]:
    """All values under a key, at any depth."""
    if isinstance(document, list):
        return [value for entry in document for value in _values(entry, key)]
    if not isinstance(document, dict):
        return []
    return [
        found
        for name, value in document.items()
        for found in ([value, *_values(value, key)] if name == key else _values(value, key))
    ]


def _texts(document: object) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict | list):
        for value in document.values() if isinstance(document, dict) else document:
            yield from _texts(value)
