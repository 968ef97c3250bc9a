"""The process that workers are forked from, seen from the parent.

It has imported torch and what checks and times, so that a further worker starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import threading
import time
from pathlib import Path

from kernellab.running.processes import supervisor
from kernellab.running.processes.child import Child
from kernellab.running.processes.startup import environment, program, refuse_workers_of_workers

_START_TIMEOUT_S = 180.0  # importing torch on a busy machine
_END_GRACE_S = 5.0


class WorkerTemplate:
    """Starts when the first worker is needed. A template that has died is replaced: a worker may kill it.

    `times`: whether its workers may time implementations.
    """

    def __init__(self, *, times: bool = True) -> None:
        self._times = times
        self._child: Child | None = None
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()  # several threads may need workers at once

    def fork(self, kind: str, connection: socket.socket, log: Path) -> ForkedWorker:
        """Start a worker of a kind, with its end of a connection and a log."""
        with self._lock:
            worker = self._request(kind, connection, log)
            if not worker.is_forked(_START_TIMEOUT_S):
                self.close()
                worker = self._request(kind, connection, log)
            return worker

    def _request(self, kind: str, connection: socket.socket, log: Path) -> ForkedWorker:
        if self._child is None or self._socket is None:
            self._child, self._socket = _start(log, environment(times=self._times))
        reader, writer = os.pipe()
        try:
            with log.open("ab") as output, contextlib.suppress(BrokenPipeError):  # then the pipe tells that it died
                socket.send_fds(self._socket, [kind.encode()], [connection.fileno(), output.fileno(), writer])
        finally:
            os.close(writer)
        return ForkedWorker(self._child, reader)

    def close(self) -> None:
        """End the template, and the workers that it has forked."""
        child, self._child = self._child, None
        if child is not None:
            child.end()
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _start(log: Path, env: dict[str, str]) -> tuple[Child, socket.socket]:
    """Start a template. What it prints goes to the log of the first worker."""
    refuse_workers_of_workers()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # each message is received as it was sent
    with theirs:
        command = program("kernellab.running.worker.template", str(theirs.fileno()))
        return Child(command, env, output=log, inherited=[theirs.fileno()]), ours


class ForkedWorker:
    """A worker process. The template writes its process id into a pipe, and its exit code when it has ended."""

    def __init__(self, template: Child, pipe: int) -> None:
        self._template, self._pipe = template, pipe
        self._lines: list[str] = []
        self._text = ""

    def is_forked(self, timeout_s: float) -> bool:
        """Whether there is a process, once that is known; False: its template died."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._read(1, timeout_s)
        return bool(self._lines)

    def wait(self, timeout_s: float) -> int:
        """Wait for its end; the exit code, negative for a signal. Raises subprocess.TimeoutExpired."""
        self._read(2, timeout_s)
        if len(self._lines) == 2:
            return int(self._lines[1])
        return self._template.wait(timeout_s)  # the template ended first

    def end(self) -> None:
        """Kill it and everything it has started."""
        if self.is_forked(0.0):
            supervisor.kill_tree(int(self._lines[0]), own_session=True)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._read(2, _END_GRACE_S)
        pipe, self._pipe = self._pipe, -1
        if pipe >= 0:
            os.close(pipe)

    def _read(self, lines: int, timeout_s: float) -> None:
        """Read until there are so many lines, or no more will come. Raises subprocess.TimeoutExpired."""
        deadline = time.monotonic() + timeout_s
        while len(self._lines) < lines and self._pipe >= 0:
            if not select.select([self._pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise subprocess.TimeoutExpired("a worker", timeout_s)
            data = os.read(self._pipe, 100)
            if not data:
                return
            *complete, self._text = (self._text + data.decode()).split("\n")
            self._lines += complete
