"""A command held by its parent: it ends when the parent does, with everything it has started.

For programs that are not ours and may start others. This process is the head of a session, executes nothing that
could hold it up, and waits for the end of the command or of the parent's pipe, whichever comes first.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from kernellab.base.user_code import PACKAGE

_GRACE_S = 5.0


class Leashed:
    """A command in a session of its own, its output appended to a file."""

    def __init__(self, command: Sequence[str], output: Path, env: Mapping[str, str]) -> None:
        lifeline, self._lifeline = os.pipe()  # never written to: it closes when this process ends
        with output.open("ab") as out:
            self._process = subprocess.Popen(
                [*program("processes.supervised"), str(lifeline), *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                pass_fds=[lifeline],
                start_new_session=True,
                env=dict(env),
            )
        os.close(lifeline)

    def ended(self) -> int | None:
        """The exit code, None while it runs; negative for a signal."""
        return self._process.poll()

    def end(self) -> None:
        """Kill whatever is left of it."""
        _kill_all(self._process.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_GRACE_S)
        os.close(self._lifeline)


def program(module: str) -> list[str]:
    """The `main` of a module of this folder as a command; the working directory does not come first on its path."""
    code = f"import sys; sys.path.append({str(PACKAGE.parent)!r})\nfrom kernellab.running.{module} import main; main()"
    return [sys.executable, "-P", "-c", code]


def _kill_all(head: int) -> None:
    """What has left the process group of a session's head, then the group."""
    with contextlib.suppress(psutil.Error):
        for stray in psutil.Process(head).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                stray.kill()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(head, signal.SIGKILL)  # last: the head may be who asks


def main() -> None:
    lifeline = int(sys.argv[1])
    process = subprocess.Popen(sys.argv[2:])

    def watch() -> None:
        os.read(lifeline, 1)
        _kill_all(os.getpid())

    threading.Thread(target=watch, daemon=True).start()
    code = process.wait()
    sys.exit(code if code >= 0 else 128 - code)
