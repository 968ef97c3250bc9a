"""The folder of a run: how it is chosen and created, and its path as users see it."""

from __future__ import annotations

import itertools
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.cli.project import project_text

if TYPE_CHECKING:
    from kernellab.record.journal import Journal
    from kernellab.record.settings import Settings


def create_journal(
    out: str | None, settings: Settings, prefix: str = "", *, command: Sequence[str] | None = None
) -> Journal:
    """A journal in a folder of its own: the one that `--out` names, or `runs/WHEN-NAME`.

    `prefix` begins the folder's name. Verbs that cannot resume a run have one. `command` is stored; by default it is
    the command line of this process.
    """
    from kernellab.record.journal import JOURNAL, begin

    folder = Path(out) if out else _make_folder(prefix, settings.targets)
    if (folder / JOURNAL).exists():
        remedy = "" if prefix else f"--resume {folder} continues it, or "
        raise UserError(f"{folder} already holds a run: {remedy}name another folder")
    return begin(folder, settings.to_json(), settings.seed, command or ["klab", *sys.argv[1:]], own_folder=not out)


def runs_folder() -> Path:
    """The folder of all runs of this project."""
    return Path(project_text("runs") or "runs")


def _make_folder(prefix: str, targets: list[str]) -> Path:
    """A new folder, which no other process gets too."""
    when = time.strftime("%Y%m%d-%H%M%S")
    name = prefix + "-".join(re.sub(r"\W+", "-", Path(t).stem if t.endswith(".py") else t) for t in targets)[:40]
    for number in itertools.count(1):
        folder = runs_folder() / (f"{when}-{name}" if number == 1 else f"{when}-{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise UserError(
                f"cannot write the record to {folder}: {error.strerror}. --out DIR names another place"
            ) from None
        return folder
    raise AssertionError("numbers never end")


def create_folder(out: str) -> Path:
    """A folder for files that are not a run."""
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {folder} cannot be created: {error.strerror}") from None
    return folder


def display_path(folder: Path) -> str:
    """Relative to the current folder where it lies below it."""
    try:
        return str(folder.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(folder)
