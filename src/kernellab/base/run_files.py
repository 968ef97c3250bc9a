"""Opens a file that a record names, but only if it lies inside the run's own folder.

A record may come from a stranger: a name in it could lead anywhere, by `..`, an absolute path or a symbolic link.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kernellab.base.json_files import Refused

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# A pipe that nobody writes to would be waited for.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def read_run_file(folder: Path, name: str, most: int) -> bytes:
    """The content of an ordinary file of at most `most` bytes, named relative to the run's folder.

    Raises Refused if the name leads elsewhere or the file is larger, and OSError if the file cannot be read.
    """
    parts = name.split("/")
    if "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise Refused("its name leads out of the run's folder")
    descriptor = _open_inside(folder, parts)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Refused("it is not an ordinary file")
        if status.st_size > most:
            raise Refused(f"it is larger than {most / (1 << 20):.3g} MiB")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)


def _open_inside(folder: Path, parts: list[str]) -> int:
    """A descriptor of the file. Each step is opened from the one before, so that nothing can be exchanged between."""
    at = os.open(folder, _FOLDER)
    try:
        for part in parts[:-1]:
            inner = _open_step(part, _FOLDER, at)
            os.close(at)
            at = inner
        return _open_step(parts[-1], _FILE, at)
    finally:
        os.close(at)


def _open_step(name: str, flags: int, at: int) -> int:
    if stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
        raise Refused("its name leads through a symbolic link")
    return os.open(name, flags | os.O_NOFOLLOW, dir_fd=at)
