"""Starts a command that ends with this process, like everything the command has started.

kernellab starts every process that may outlive a call through this module.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from kernellab.running.processes import supervisor

_KILL_GRACE_S = 5.0


class Child:
    """A command under a supervisor.

    By default it has a session of its own, no input, and its output is appended to the file `output`. `on_terminal`:
    it keeps this process's terminal and process group, so that the user can type into it and interrupt it; its standard
    output goes to the descriptor `stdout` if that is given. `folder`: its working directory, by default this process's.
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        *,
        output: Path | None = None,
        inherited: Sequence[int] = (),
        on_terminal: bool = False,
        stdout: int | None = None,
        folder: Path | None = None,
    ) -> None:
        self._own_session = not on_terminal
        reader, self._lifeline = os.pipe()  # nothing is written: it closes when this process ends
        with contextlib.ExitStack() as stack:
            log: IO[bytes] | None = stack.enter_context(output.open("ab")) if output else None
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    str(Path(supervisor.__file__)),
                    str(reader),
                    "terminal" if on_terminal else "session",
                    *command,
                ],
                stdin=None if on_terminal else subprocess.DEVNULL,
                stdout=log or stdout,
                stderr=log,
                pass_fds=[reader, *inherited],
                start_new_session=self._own_session,
                env=dict(env),
                cwd=folder,
            )
        os.close(reader)

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for its end and return the exit code as `poll` does; raises subprocess.TimeoutExpired."""
        return self._process.wait(timeout_s)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def end(self) -> None:
        """Kill it and everything it has started."""
        supervisor.kill_tree(self._process.pid, own_session=self._own_session)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_KILL_GRACE_S)
        lifeline, self._lifeline = self._lifeline, -1  # once: a later descriptor may get the same number
        if lifeline >= 0:
            os.close(lifeline)
