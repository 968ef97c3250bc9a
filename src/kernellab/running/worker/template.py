"""The process that workers are forked from: it imports what they need, then forks one for each request.

A request has the kind of worker, and as file descriptors its connection, its log and a pipe, into which go its process
id and in the end its exit code. Nothing here executes an op file or touches a GPU: a fork would inherit that.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
from typing import NoReturn

# What a worker imports in any case, in the order in which it does. Triton is not among them: whether it interprets
# kernels is decided when it is imported.
_IMPORTED = (
    "torch",
    "kernellab.running.worker.main",
    "kernellab.running.worker.battery",
    "kernellab.running.worker.group",
    "kernellab.running.worker.profile",
    "kernellab.running.worker.describe",
    "kernellab.timing.cuda_clock",
    "kernellab.machine.peaks",
    "kernellab.machine.telemetry",
)
_MOST_BYTES = 64  # of a request


class Template:
    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._pipes: dict[int, int] = {}  # of the workers that run, by process id
        # Readable when a worker has ended: Python writes to the other end when a signal arrives that has a handler.
        self._ended, self._wakeup = os.pipe()
        os.set_blocking(self._wakeup, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Fork workers until the parent closes the connection."""
        while True:
            ready, _, _ = select.select([self._requests.fileno(), self._ended], [], [])
            if self._ended in ready:
                os.read(self._ended, 4096)
                self._report_ends()
            if self._requests.fileno() in ready:
                kind, fds, _, _ = socket.recv_fds(self._requests, _MOST_BYTES, 3)
                if not kind:
                    return
                self._fork(kind.decode(), *fds)

    def _fork(self, kind: str, connection: int, log: int, pipe: int) -> None:
        child = os.fork()
        if child == 0:
            os.close(pipe)
            self._become_worker(kind, connection, log)
        os.close(connection)
        os.close(log)
        self._pipes[child] = pipe
        _write(pipe, child)

    def _report_ends(self) -> None:
        for child, pipe in list(self._pipes.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                _write(pipe, os.waitstatus_to_exitcode(status))
                os.close(self._pipes.pop(child))

    def _become_worker(self, kind: str, connection: int, log: int) -> NoReturn:
        from kernellab.running.worker.main import run

        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for fd in (self._requests.detach(), self._ended, self._wakeup, *self._pipes.values()):
            os.close(fd)
        os.setsid()
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        run(connection, kind)


def _write(pipe: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the parent does not need it any more
        os.write(pipe, f"{number}\n".encode())


def main() -> None:
    for module in _IMPORTED:
        with contextlib.suppress(Exception):  # the worker that needs it will say why it cannot be imported
            importlib.import_module(module)
    gc.collect()
    gc.freeze()  # the collector would write to all objects, and so copy the memory that workers share
    Template(socket.socket(fileno=int(sys.argv[1]))).serve()
