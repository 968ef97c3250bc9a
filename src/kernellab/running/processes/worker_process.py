"""A worker process, seen from its parent: sends commands and receives events over a private socket."""

from __future__ import annotations

import contextlib
import json
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

from kernellab.base.message import DamagedMessage, UnknownMessage
from kernellab.record.event import Event
from kernellab.running.processes import compile_cache
from kernellab.running.processes.worker_template import WorkerTemplate
from kernellab.running.protocol.commands import Command

_EXIT_GRACE_S = 5.0


class WorkerDied(Exception):
    """The worker process ended in the middle of a command."""

    def __init__(self, reason: str, *, out_of_memory: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.out_of_memory = reason, out_of_memory


class WorkerSilent(Exception):
    """The worker sent nothing within its timeout."""


class WorkerProcess:
    """One worker process and its connection, which carries JSON lines."""

    def __init__(self, kind: str, log: Path, template: WorkerTemplate) -> None:
        ours, theirs = socket.socketpair()
        self._cache_use = compile_cache.CacheUse()
        self.busy = False  # whether a command is running; the slot sets it
        self._oom_kills = _oom_kills()
        log.parent.mkdir(parents=True, exist_ok=True)
        with theirs:
            self._process = template.fork(kind, theirs, log)
        self._socket = ours
        self._buffer = b""

    def send(self, command: Command) -> None:
        # If the worker has just died, the next `receive` raises.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(json.dumps(command.to_json()).encode() + b"\n")

    def receive(self, timeout_s: float | None) -> Event:
        """The next event; raises WorkerSilent after `timeout_s`, WorkerDied when the process is gone."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            remaining_s = None if deadline is None else deadline - time.monotonic()
            if remaining_s is not None and remaining_s <= 0:
                raise WorkerSilent
            readable, _, _ = select.select([self._socket], [], [], remaining_s)
            if not readable:
                raise WorkerSilent
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                raise self._death()
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            entry = json.loads(line)
            if isinstance(entry, dict):
                return Event.parse(entry)
        except (UnknownMessage, DamagedMessage) as error:
            raise WorkerDied(f"it sent an event that kernellab does not declare: {error}") from None
        except ValueError:
            pass
        raise WorkerDied("it broke the connection to kernellab: it sent something that is not an event")

    def _death(self) -> WorkerDied:
        try:
            code = self._process.wait(_EXIT_GRACE_S)
        except subprocess.TimeoutExpired:
            return WorkerDied("the process closed its connection to kernellab and kept running")
        if code >= 0:
            return WorkerDied(f"the process exited with code {code} in the middle of the call")
        try:
            name = signal.Signals(-code).name
        except ValueError:  # a real-time signal has no name
            name = f"signal {-code}"
        if -code == signal.SIGKILL and _oom_kills() > self._oom_kills:
            return WorkerDied("the machine ran out of memory and the kernel killed the process", out_of_memory=True)
        words = {"SIGSEGV": "segmentation fault", "SIGABRT": "aborted", "SIGFPE": "arithmetic fault"}
        return WorkerDied(f"{words.get(name, 'the process was killed')} ({name})")

    def kill(self) -> None:
        """End the process and everything it started."""
        self._process.end()
        self._socket.close()
        self._cache_use.end(interrupted=self.busy)


def _oom_kills() -> int:
    """How many processes the kernel has killed because memory ran out."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
