"""Locks on files, which keep processes from writing the same thing at once. They end with the process that holds them.

Where the system or the file system has no such locks, nothing is locked.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

try:
    import fcntl

    _HAS_LOCKS = True
except ImportError:  # Windows
    _HAS_LOCKS = False


def try_lock(file: IO[bytes], wait_s: float = 0.0) -> bool:
    """Lock an open file until it is closed; False if another process has held the lock for `wait_s`."""
    deadline = time.monotonic() + wait_s
    while _HAS_LOCKS:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
            continue
        except OSError:  # a file system without locks
            break
        break
    return True


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file."""
    if not _HAS_LOCKS:
        return False
    # A pipe that nobody writes to would be waited for.
    with (
        contextlib.suppress(OSError),
        os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file,
    ):
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is created if absent; waits for other processes."""
    with path.open("ab") as file:
        if _HAS_LOCKS:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
