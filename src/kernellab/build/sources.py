"""Source files and the files they include, a fingerprint of them, and notifications of builds."""

from __future__ import annotations

import contextlib
import hashlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from kernellab.base.errors import UserError

# Every build runs inside the contexts of these observers, so that a build in a timed region is noticed.
observers: list[Callable[[str], AbstractContextManager[object]]] = []
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def locate(file: str | Path, depth: int = 2) -> Path:
    """The path of a source file. A relative path starts at the folder of the Python file that passes it.

    `depth` is the number of calls between that file and this function.
    """
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


def fingerprint(path: Path, *settings: str) -> str:
    """Identifies a build: a hash of the sources it reads and of everything else that decides its result."""
    digest = hashlib.sha256()
    for file in with_includes(path):
        digest.update(file.read_bytes())
    for setting in settings:
        digest.update(b"\0" + setting.encode())
    return digest.hexdigest()[:24]


@contextlib.contextmanager
def notify_observers(name: str) -> Iterator[None]:
    """Run a build, or the loading of a cached one, inside the contexts of all observers."""
    with contextlib.ExitStack() as stack:
        for observer in observers:
            stack.enter_context(observer(name))
        yield
