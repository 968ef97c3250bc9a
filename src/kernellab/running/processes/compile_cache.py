"""torch.compile's on-disk cache, kept apart from the user's and kept whole.

A worker killed in the middle of a compilation leaves half a library behind, and torch would load it in
every later run. So each worker leaves a mark while it lives; what was written since the mark of one
that did not end well is dropped.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import psutil

from kernellab.base.paths import cache_dir


def folder() -> Path:
    return cache_dir("inductor")


class Mark:
    """Made before a worker starts, removed when it ends; `spoil` when it was ended in mid-work."""

    def __init__(self) -> None:
        for stale in folder().glob(".worker-*"):
            if not psutil.pid_exists(int(stale.name.split("-")[1])):
                _drop_since(stale)
        self._path = folder() / f".worker-{os.getpid()}-{time.monotonic_ns()}"
        self._path.touch()

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    def spoil(self) -> None:
        _drop_since(self._path)


def _drop_since(mark: Path) -> None:
    try:
        began = mark.stat().st_mtime - 1
    except OSError:  # another run has dealt with it
        return
    for file in folder().rglob("*"):
        with contextlib.suppress(OSError):  # other runs use this folder too
            if file.is_file() and not file.name.startswith(".worker-") and file.stat().st_mtime >= began:
                file.unlink()
    mark.unlink(missing_ok=True)
