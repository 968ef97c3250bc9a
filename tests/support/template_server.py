"""Starts the processes that workers are forked from in forks of one process, which has imported torch already.

A command of klab starts such a process, and importing torch takes longer than most of what tests ask of it. Here it is
a fork, supervised as the real one is: the same program with the same modules. A command whose environment could change
what is imported gets a real one.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

_READ_BY_IMPORTS = ("CUDA", "KMP", "LD_", "MKL", "OMP", "PYTHON", "TORCH")
_MOST_BYTES = 1 << 20  # of a request


class TemplateServer:
    """The server, seen from the process that starts klab commands."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-P", str(Path(__file__)), str(theirs.fileno())]
            subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    @property
    def fd(self) -> int:
        """Must stay open in a process that uses the server."""
        return self._socket.fileno()

    def serve_this_process(self, started_with: Mapping[str, str]) -> None:
        """From now on klab uses the server, in this process. `started_with`: the environment of the server."""
        changed = {name for name, _ in os.environ.items() ^ started_with.items()}
        if not any(name.startswith(_READ_BY_IMPORTS) for name in changed):
            from kernellab.running.processes import worker_template

            worker_template._start = self._start

    def _start(self, log: Path, env: dict[str, str]) -> tuple[ForkedTemplate, socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        lifeline, status = os.pipe(), os.pipe()
        request = json.dumps({"env": env, "cwd": str(Path.cwd())})
        with theirs, log.open("ab") as output:
            fds = [theirs.fileno(), output.fileno(), lifeline[0], status[1]]
            socket.send_fds(self._socket, [request.encode()], fds)
        os.close(lifeline[0])
        os.close(status[1])
        return ForkedTemplate(lifeline[1], status[0]), ours


class ForkedTemplate:
    """In the place of `child.Child`. A line in the pipe `status` is the supervisor's process id, a second the exit
    code."""

    def __init__(self, lifeline: int, status: int) -> None:
        self._lifeline, self._status, self._text = lifeline, status, ""

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout_s: float | None = None) -> int:
        lines = self._read(2, timeout_s)
        return int(lines[1]) if len(lines) > 1 else -signal.SIGKILL

    def terminate(self) -> None:
        os.kill(int(self._read(1, None)[0]), signal.SIGTERM)

    def end(self) -> None:
        from kernellab.running.processes.supervisor import kill_tree

        if lines := self._read(1, None):
            kill_tree(int(lines[0]), own_session=True)
        lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)

    def _read(self, lines: int, timeout_s: float | None) -> list[str]:
        """So many lines, or fewer if no more will come."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self._text.count("\n") < lines and self._status >= 0:
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._status], [], [], left_s)[0]:
                raise subprocess.TimeoutExpired("a template", timeout_s or 0.0)
            data = os.read(self._status, 100)
            if not data:
                os.close(self._status)
                self._status = -1
            self._text += data.decode()
        return self._text.splitlines()


# In the server -----------------------------------------------------------------------------------------


def main() -> None:
    from kernellab.base.user_code import PACKAGE
    from kernellab.running.worker import template

    sys.path.append(str(PACKAGE.parent))  # as a program of kernellab does
    for module in template._IMPORTED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks leave nothing behind
    requests = socket.socket(fileno=int(sys.argv[1]))
    while True:
        request, fds, _, _ = socket.recv_fds(requests, _MOST_BYTES, 4)
        if not request:
            return
        if os.fork() == 0:
            requests.close()
            _supervise(json.loads(request), *fds)
        for fd in fds:
            os.close(fd)


def _supervise(request: dict[str, Any], connection: int, log: int, lifeline: int, status: int) -> NoReturn:
    """As running/processes/supervisor.py does."""
    from kernellab.running.processes.supervisor import adopt_orphans, end_children

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    adopt_orphans()
    template = os.fork()
    if template == 0:
        os.close(lifeline)
        os.close(status)
        _become_template(request, connection, log)
    os.close(connection)
    os.close(log)
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(template, signal.SIGTERM))
    os.write(status, f"{os.getpid()}\n".encode())

    def end_with_parent() -> None:
        from kernellab.running.processes.supervisor import kill_tree

        os.read(lifeline, 1)
        kill_tree(os.getpid(), own_session=True)

    threading.Thread(target=end_with_parent, daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(template, 0)[1])
    end_children()
    with contextlib.suppress(BrokenPipeError):
        os.write(status, f"{code}\n".encode())
    os._exit(0)


def _become_template(request: dict[str, Any], connection: int, log: int) -> NoReturn:
    from kernellab.running.worker.template import Template

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    for number, fd in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
        os.dup2(fd, number)
    os.close(log)
    sys.argv = ["-c", str(connection)]
    Template(socket.socket(fileno=connection)).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
