"""Joins the sections of one or several runs into one HTML file."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernellab.reporting.charts.provenance import provenance
from kernellab.reporting.html.document import Sources, render
from kernellab.reporting.html.packages import require
from kernellab.reporting.html.parts import asset, label
from kernellab.reporting.report.parts.section import Run, Section
from kernellab.reporting.report.sections import SECTIONS

_TEMPLATES = Path(__file__).with_name("templates")
_MOST_TITLE = 80  # characters


@dataclass(frozen=True)
class Chapter:
    """The sections of one run."""

    prefix: str
    title: str
    provenance: str
    sections: Sequence[Section]


def report(runs: Sequence[Run], home: str = "") -> str:
    """The document. Several runs follow one another, each with its own sections. A server has a `home`."""
    numbered = [replace(run, prefix=f"run{number}-" if len(runs) > 1 else "") for number, run in enumerate(runs, 1)]
    chapters = [_chapter(run, several=len(runs) > 1) for run in numbered]
    sections = [section for chapter in chapters for section in chapter.sections]
    figures = {name: figure for section in sections for name, figure in section.figures.items()}
    data = {name: value for section in sections for name, value in section.data.items()}
    styles = dict.fromkeys(["report.css", *(name for section in sections for name in section.styles)])
    scripts = dict.fromkeys(
        ["tables.js", "charts.js", *(name for section in sections for name in section.scripts), "ready.js"]
    )
    return render(
        _TEMPLATES,
        "report.html",
        Sources(
            styles=[asset(__file__, name) for name in styles],
            scripts=[asset(__file__, name) for name in scripts],
            packed=_packed() if figures else {},
            frame_scripts=list(dict.fromkeys(text for section in sections for text in section.frame_scripts)),
            data={**data, **({"figures": figures} if figures else {})},
        ),
        home=home,
        title=chapters[0].title if len(chapters) == 1 else f"{len(chapters)} runs",
        chapters=chapters,
    )


def _chapter(run: Run, *, several: bool) -> Chapter:
    """The sections of a run. Of several runs, the title says which: they may be of the same op."""
    sections = [section for make in SECTIONS if (section := make(run)) is not None]
    ops = dict.fromkeys(entry["op"] for entry in (*run.record["results"], *run.record["code"]))
    title = label(", ".join(ops) or shlex.join(run.record["command"][:3]) or "an empty run", _MOST_TITLE)
    if several and run.folders:
        title += f" · {label(run.folders[0].resolve().name, _MOST_TITLE)}"
    return Chapter(run.prefix, title, provenance(run.record), sections)


def _packed() -> dict[str, str]:
    """What charts are drawn with. Raises MissingPackages where it cannot be imported."""
    require("plotly", "plotly.offline")
    return {"plotly": _plotly()}


@functools.cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
