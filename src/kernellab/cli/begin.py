"""Beginning a run: what is named, the folder it is kept in, and where its progress is told."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.base.errors import UserError
from kernellab.cli.options import project_defaults

if TYPE_CHECKING:
    from kernellab.record.journal import Journal
    from kernellab.record.settings import Settings


def absolute(target: str) -> str:
    """A file is remembered by its full path, so that a run can be resumed from anywhere."""
    path, colon, op = target.partition(":")
    return f"{Path(path).resolve()}{colon}{op}" if path.endswith(".py") and Path(path).is_file() else target


def refuse_unknown_targets(targets: list[str]) -> None:
    from kernellab.declaration.targets import resolve

    for target in targets:
        resolve(target)


def begun(out: str | None, settings: Settings, prefix: str = "") -> Journal:
    """A journal in a folder of its own: the one asked for, or runs/WHEN-NAME."""
    from kernellab.record.journal import JOURNAL, begin

    runs = project_defaults().get("runs", "runs")
    folder = Path(out) if out else _fresh_folder(runs, prefix, settings.targets)
    if (folder / JOURNAL).exists():
        goes_on = "" if prefix else f"--resume {folder} goes on with it, or "  # runs of a verb of their own are short
        raise UserError(f"{folder} already holds a run: {goes_on}name another folder")
    return begin(folder, settings.to_json(), settings.seed, ["klab", *sys.argv[1:]])


def _fresh_folder(runs: str, prefix: str, targets: list[str]) -> Path:
    when = time.strftime("%Y%m%d-%H%M%S")
    name = prefix + "-".join(re.sub(r"\W+", "-", Path(t).stem if t.endswith(".py") else t) for t in targets)[:40]
    folder = Path(runs) / f"{when}-{name}"
    number = 2
    while folder.exists():
        folder = Path(runs) / f"{when}-{name}-{number}"
        number += 1
    return folder


def folder_for(out: str) -> Path:
    """A folder for files that are no run."""
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {folder} cannot be made: {error.strerror}") from None
    return folder


def progress_bar() -> Any:
    from kernellab.reporting.terminal.progress import LiveProgress, PlainProgress
    from kernellab.reporting.text.console import console

    if sys.stderr.isatty():
        return LiveProgress(console(stderr=True))
    return PlainProgress()


def shown(folder: Path) -> str:
    try:
        return str(folder.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(folder)
