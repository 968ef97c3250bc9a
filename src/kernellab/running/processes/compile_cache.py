"""torch.compile's on-disk cache, separate from the user's and without incomplete files.

A worker that is killed in the middle of a compilation leaves an incomplete library, and torch would load it in every
later run. So each worker has a marker file while it lives. Files written since the marker of a worker that was
interrupted are deleted.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import psutil

from kernellab.base.paths import cache_dir

_MARKER = ".worker-"


def folder() -> Path:
    return cache_dir("inductor")


class CacheUse:
    """One worker's use of the cache, from before the worker starts until `end`."""

    def __init__(self) -> None:
        for marker in folder().glob(f"{_MARKER}*"):
            if not psutil.pid_exists(int(marker.name.removeprefix(_MARKER).split("-")[0])):
                _delete_since(marker)
        self._marker = folder() / f"{_MARKER}{os.getpid()}-{time.monotonic_ns()}"
        self._marker.touch()

    def end(self, *, interrupted: bool) -> None:
        """End the use; `interrupted`: the worker was ended in the middle of its work."""
        if interrupted:
            _delete_since(self._marker)
        else:
            self._marker.unlink(missing_ok=True)


def _delete_since(marker: Path) -> None:
    try:
        began = marker.stat().st_mtime - 1
    except OSError:  # another run has deleted it
        return
    for file in folder().rglob("*"):
        with contextlib.suppress(OSError):  # other runs use this folder too
            if file.is_file() and not file.name.startswith(_MARKER) and file.stat().st_mtime >= began:
                file.unlink()
    marker.unlink(missing_ok=True)
