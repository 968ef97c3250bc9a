"""A source file with what it includes, a fingerprint that changes when any of it does, and word of its builds."""

from __future__ import annotations

import contextlib
import hashlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError

# Entered, with a name, around every build: a timed region must not contain one unseen.
observers: list[Callable[[str], AbstractContextManager[Any]]] = []
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def locate(file: str | Path, depth: int = 2) -> Path:
    """A relative path is meant from the folder of the Python file that names it."""
    path = Path(file)
    if not path.is_absolute():
        caller = Path(sys._getframe(depth).f_code.co_filename)
        path = caller.parent / path
    if not path.is_file():
        raise UserError(f"no source file {path}")
    return path


def with_includes(path: Path) -> list[Path]:
    """The file and every file it includes with quotes, each once, depth first."""
    seen: dict[Path, None] = {}

    def visit(file: Path) -> None:
        if file in seen or not file.is_file():
            return
        seen[file] = None
        for name in _INCLUDE.findall(file.read_text()):
            visit((file.parent / name).resolve())

    visit(path.resolve())
    return list(seen)


def fingerprint(path: Path, *more: str) -> str:
    """Identifies a build: the sources it reads and everything else that decides its outcome."""
    digest = hashlib.sha256()
    for file in with_includes(path):
        digest.update(file.read_bytes())
    for part in more:
        digest.update(b"\0" + part.encode())
    return digest.hexdigest()[:24]


@contextlib.contextmanager
def building(name: str) -> Iterator[None]:
    """Around making something to run from its sources, or fetching what was made before."""
    with contextlib.ExitStack() as stack:
        for observer in observers:
            stack.enter_context(observer(name))
        yield
