"""The file `report.html`: from which runs it is made, where it is written, and what it needs."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.base.paths import REPORT_SWITCH, replace_file
from kernellab.cli.run_folder import display_path
from kernellab.reporting.html.packages import MissingPackages, require

if TYPE_CHECKING:
    from kernellab.record.derived import DerivedRecord
    from kernellab.reporting.report.parts.section import Run

NAME = "report.html"
_PACKAGES = ("jinja2", "plotly")
_RECORDS = ("run.json", "journal.jsonl")
_MEASURED = (*_RECORDS, "profile.json", "counters.json", "counters.csv")


def remedy(missing: MissingPackages, runs: Sequence[str]) -> str:
    """How to make the report in spite of missing packages."""
    again = f"klab report {shlex.join(runs)}"
    return f"{missing.install}, or copy the run to a machine that has what is needed; then {again}"


def default_path(sources: Sequence[Path]) -> Path:
    """`report.html` in the folder of a run; in the current folder for several runs."""
    if len(sources) > 1:
        return Path(NAME)
    return (sources[0] if sources[0].is_dir() else sources[0].parent) / NAME


def different_runs(sources: Sequence[Path]) -> list[Path]:
    """The runs that are named, each once."""
    runs: dict[Path, Path] = {}
    for source in sources:
        runs.setdefault((source.parent if source.name in _RECORDS else source).resolve(), source)
    return list(runs.values())


def refuse_sources(file: Path, sources: Sequence[Path]) -> None:
    """A report never replaces what was measured."""
    place = file.parent.resolve() / file.name
    for source in sources:
        folder = source if source.is_dir() else source.parent
        if place in {source.parent.resolve() / source.name, *(folder.resolve() / name for name in _MEASURED)}:
            raise UserError(f"--out {file} is a file of the run and would be lost: name another file")


def load(sources: Sequence[Path]) -> list[Run]:
    """The runs of a report: several are joined into one where `klab merge` joins them."""
    from kernellab.record.reading import load as load_record
    from kernellab.record.verdict import derive
    from kernellab.reporting.report.parts.section import Run

    records = [load_record(source) for source in sources]
    folders = [source if source.is_dir() else source.parent for source in sources]
    # Machine code belongs to one run: joining would lose it.
    joined = _join(folders) if len(sources) > 1 and not any(record["code"] for record in records) else None
    if joined is not None:
        return [Run(joined, folders)]
    return [Run(derive(record), [folder]) for record, folder in zip(records, folders, strict=True)]


def _join(folders: Sequence[Path]) -> DerivedRecord | None:
    """The record of the joined run; None where the runs cannot be joined."""
    from kernellab.record.merge import merge
    from kernellab.record.verdict import derive

    with tempfile.TemporaryDirectory(prefix="kernellab-report-") as folder:
        try:
            return derive(merge(folders, Path(folder) / "joined", ["klab", "report", *map(str, folders)]))
        except UserError:
            return None


def json_document(runs: Sequence[Run]) -> object:
    """The record with its verdicts and findings; a list of records where runs could not be joined."""
    from kernellab.explaining.document import add_findings

    for run in runs:
        add_findings(run.record)
    return runs[0].record if len(runs) == 1 else [run.record for run in runs]


def write_report(record: DerivedRecord, folder: Path) -> str:
    """Writes the report of a run that has ended. Returns a line that names it, or says why there is none.

    A run never fails because of its report.
    """
    from kernellab.reporting.report.parts.section import Run

    again = f"klab report {shlex.quote(display_path(folder))}"
    if os.environ.get(REPORT_SWITCH) == "0":
        return f"no report, as {REPORT_SWITCH} is 0: {again} writes it"
    try:
        write([Run(record, [folder])], folder / NAME)
    except MissingPackages as missing:
        return f"no report without {missing.needs}: {remedy(missing, [display_path(folder)])}"
    except UserError as error:
        return f"no report: {error.message}"
    except KeyboardInterrupt:
        return f"no report, as it was interrupted: {again} writes it"
    except Exception as error:
        return f"no report ({type(error).__name__}): {again} --debug shows why"
    return f"report: {display_path(folder / NAME)}"


def html_document(runs: Sequence[Run]) -> str:
    """The report. Raises MissingPackages where a package cannot be imported; without charts it needs no plotly."""
    try:
        require("jinja2")
    except MissingPackages:
        require(*_PACKAGES)  # all that are missing are named at once
    from kernellab.reporting.report.document import report

    return report(runs)


def write(runs: Sequence[Run], file: Path) -> None:
    """Writes the report. Refused in a sentence where the file cannot be written."""
    write_text(html_document(runs), file)


def write_text(text: str, file: Path) -> None:
    """Writes a document. Refused in a sentence where the file cannot be written."""
    try:
        # A stranger's run may hold a link of this name: it is replaced, not followed.
        replace_file(file, text.encode(errors="replace"))
    except OSError as error:
        raise UserError(f"{file} cannot be written: {error.strerror}") from None
