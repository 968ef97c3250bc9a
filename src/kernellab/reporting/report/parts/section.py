"""A section of a report: what a template shows of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernellab.base.json import JsonObject
from kernellab.base.json_files import Refused
from kernellab.base.run_files import read_run_file
from kernellab.record.derived import DerivedRecord


@dataclass(frozen=True)
class Run:
    """A run as sections read it: its record with the verdicts, and the folders that may hold its files.

    `prefix` begins the ids of its sections and figures, which are unique in a document of several runs.
    """

    record: DerivedRecord
    folders: Sequence[Path] = ()
    prefix: str = ""

    def read(self, name: str, most: int) -> bytes | None:
        """A file of at most `most` bytes that the record names, if it lies inside a folder of the run."""
        for folder in self.folders:
            try:
                return read_run_file(folder, name, most)
            except (Refused, OSError, ValueError):  # ValueError: a name that no file can have
                continue
        return None


@dataclass(frozen=True)
class Section:
    """`template` is a file in `templates/`; it reads `values`. `figures` are Plotly's, by the id of their place.

    `styles` and `scripts` are files in `assets/` that this section needs; `data` is read by scripts, by id.
    `frame_scripts` are the texts of scripts that run in frames of this section.
    """

    name: str
    title: str
    template: str
    values: Mapping[str, object] = field(default_factory=dict)
    figures: Mapping[str, JsonObject] = field(default_factory=dict)
    data: Mapping[str, object] = field(default_factory=dict)
    styles: Sequence[str] = ()
    scripts: Sequence[str] = ()
    frame_scripts: Sequence[str] = ()


MakeSection = Callable[[Run], Section | None]  # None: the run has nothing to show there
