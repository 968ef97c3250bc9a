"""Where a version of the code is: which interpreter runs it, and from which folder an op is loaded.

A record names the targets of its run, but a record may be a stranger's. So its paths are only searched for below a
folder that the user names, and nothing outside that folder is executed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.declaration.targets import shipped_names
from kernellab.record.reading import head_of, read_journal

_NAME = re.compile(r"[A-Za-z_][\w.]*(:\w+)?")  # an op's name, or package.module:op


@dataclass(frozen=True)
class Installation:
    """What the user named for one side: an interpreter, and a folder or an op file. None: the one in use here."""

    python: str | None = None
    source: Path | None = None


@dataclass(frozen=True)
class Code:
    """One version of an op: what `klab bench` is given, the interpreter, and a folder to import from first."""

    target: str
    python: str
    import_from: Path | None = None

    @property
    def folder(self) -> Path | None:
        """The working directory, whose commit its runs name: that of the file or of the checkout; None: any."""
        path, colon, _ = self.target.rpartition(":")
        return Path(path).parent if colon and path.endswith(".py") else self.import_from

    @property
    def place(self) -> str:
        """What it has in common with other ops that one process can measure together with it."""
        return repr((self.python, self.import_from, self.folder))

    def __str__(self) -> str:
        where = "" if self.import_from is None else f" from {self.import_from}"
        return f"{self.target}{where} with {self.python}"


def recorded_targets(run: Path) -> list[str]:
    """The targets of a run, as its journal has them; empty where it has none."""
    folder = run if run.is_dir() else run.parent
    try:
        targets = head_of(read_journal(folder)).settings["targets"]
    except UserError:
        return []
    return [target for target in targets if isinstance(target, str)] if isinstance(targets, list) else []


def find_code(op: str, targets: Sequence[str], installation: Installation, here: str, option: str) -> Code:
    """The code of an op. `here` is the interpreter in use; `option` is the name of the option for the folder."""
    python = here if installation.python is None else _interpreter(installation.python)
    source = installation.source
    if source is not None and not source.exists():
        raise UserError(f"{option} {source} does not exist")
    if source is not None and source.is_file():
        return Code(f"{source.resolve()}:{op}", python)
    name = _named_target(op, targets)
    if name is not None:
        return Code(name, python, None if source is None else _import_folder(op, source, option))
    return Code(f"{_find_file(op, targets, source or Path(), option)}:{op}", python)


def _interpreter(text: str) -> str:
    """The absolute path of an interpreter. A link to it stays one: it names a virtual environment."""
    path = shutil.which(text)
    if path is None:
        raise UserError(f"no Python interpreter at {text}: name one, as in --before-python ../before/.venv/bin/python")
    return str(Path(path).absolute())


def _named_target(op: str, targets: Sequence[str]) -> str | None:
    """The target that names the op without a file: a shipped op, or package.module:op."""
    for target in targets:
        if _NAME.fullmatch(target) and not target.endswith(".py") and op in (target, target.partition(":")[2]):
            return target
    return op if not targets and op in shipped_names() else None


def _import_folder(op: str, source: Path, option: str) -> Path:
    folder = source / "src" if (source / "src").is_dir() else source
    if op in shipped_names() and not (folder / "kernellab").is_dir():
        raise UserError(
            f"{op} is an op of kernellab, and {option} {source} has no kernellab in it: name a checkout of kernellab, "
            "or an interpreter that has another version"
        )
    return folder.resolve()


def _find_file(op: str, targets: Sequence[str], folder: Path, option: str) -> Path:
    """The op's file below a folder: where the end of a recorded path leads to a file, the longest such end."""
    files = [file for target in targets if (path := target.partition(":")[0]) and (file := _below(folder, path))]
    if len(files) > 1:
        files = [file for file in files if re.search(rf"\b{re.escape(op)}\b", file.read_text(errors="replace"))]
    if len(files) != 1:
        problem = "no file" if not files else "more than one file"
        raise UserError(f"{problem} of the op {op} below {folder.resolve()}: {option} names its folder or its file")
    return files[0]


def _below(folder: Path, recorded: str) -> Path | None:
    root = folder.resolve()
    parts = [part for part in Path(recorded).parts if part not in ("/", "..", ".")]
    for start in range(len(parts)):
        file = root.joinpath(*parts[start:])
        if file.is_file() and file.resolve().is_relative_to(root):
            return file.resolve()
    return None
