"""A worker as its parent sees it: started in its own session, read as events, killed as a group."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kernellab.base.user_code import PACKAGE
from kernellab.running.processes import compile_cache as compilecache

_KILL_GRACE_S = 5.0


class Died(Exception):
    """The worker process ended without saying so; `reason` is what can be said about it."""

    def __init__(self, reason: str, *, out_of_memory: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.out_of_memory = reason, out_of_memory


class Silent(Exception):
    """The worker sent nothing for longer than it was allowed to."""


class WorkerClient:
    """Speaks JSON lines with one worker process over a private socket."""

    def __init__(self, kind: str, log: Path) -> None:
        ours, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()  # never written to: it closes when this process ends
        self._mark = compilecache.Mark()
        self.busy = False  # whether a command is under way; set by whoever gives commands
        self._oom_kills = _oom_kills()
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",  # the working directory does not come first on the path
                    "-c",
                    f"import sys; sys.path.append({str(PACKAGE.parent)!r})\n"
                    "from kernellab.running.worker.main import main; main()",
                    str(theirs.fileno()),
                    str(lifeline),
                    str(os.getpid()),
                    kind,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno(), lifeline],
                start_new_session=True,
                env=environment(),
            )
        theirs.close()
        os.close(lifeline)
        self._socket = ours
        self._buffer = b""

    def send(self, do: str, **fields: Any) -> None:
        # A worker that has just died is noticed by the next `receive`.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(json.dumps({"do": do, **fields}).encode() + b"\n")

    def receive(self, timeout_s: float | None) -> dict[str, Any]:
        """The next event; raises Silent after `timeout_s`, Died when the process is gone."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise Silent
            readable, _, _ = select.select([self._socket], [], [], left)
            if not readable:
                raise Silent
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                raise self._obituary()
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            event = json.loads(line)
            if isinstance(event, dict) and isinstance(event.get("event"), str):
                return event
        except ValueError:
            pass
        raise Died("it broke the connection to kernellab: what came over it is no event")

    def _obituary(self) -> Died:
        try:
            code = self._process.wait(timeout=_KILL_GRACE_S)
        except subprocess.TimeoutExpired:
            return Died("the process closed its connection to kernellab and went on")
        if code >= 0:
            return Died(f"the process exited with code {code} in the middle of the call")
        try:
            name = signal.Signals(-code).name
        except ValueError:  # a real-time signal has no name
            name = f"signal {-code}"
        if -code == signal.SIGKILL and _oom_kills() > self._oom_kills:
            return Died("the machine ran out of memory and the kernel killed the process", out_of_memory=True)
        words = {"SIGSEGV": "segmentation fault", "SIGABRT": "aborted", "SIGFPE": "arithmetic fault"}
        return Died(f"{words.get(name, 'the process was killed')} ({name})")

    def kill(self) -> None:
        """End the process and everything it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_KILL_GRACE_S)
        self._socket.close()
        os.close(self._lifeline)
        if self.busy:
            self._mark.spoil()
        else:
            self._mark.remove()


def environment() -> dict[str, str]:
    """What a worker inherits: never the interpreter switch, and no compile helpers that could outlive it."""
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    env["TORCHINDUCTOR_CACHE_DIR"] = str(compilecache.folder())
    env["PYTHONUNBUFFERED"] = "1"
    return env


def _oom_kills() -> int:
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
