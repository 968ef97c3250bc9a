"""The worker's end of the connection to its parent: events go out, commands come in."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.base.paths import cache_dir
from kernellab.base.user_code import explain
from kernellab.record.event import Event
from kernellab.record.result_events import PhaseBegun, PhaseEnded
from kernellab.record.schema import TrialJson
from kernellab.running.protocol.commands import Command
from kernellab.running.protocol.events import RequestRefused, WaitBegun, WaitEnded, WorkerBroken

if TYPE_CHECKING:
    import torch


class GpuContextLost(Exception):
    """The GPU's context is unusable after a fault: this process has to be replaced."""


class Channel:
    """JSON lines to the parent, and commands from it."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._lent = False
        os.register_at_fork(after_in_child=self._leave)
        self._lock = threading.Lock()
        self._commands: list[Command] = []
        self._ready = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def _leave(self) -> None:
        """Close the connection in a child that an implementation forks, or it would outlive this process."""
        if self._lent:
            return
        # `close` would wait for the file of the listening thread, which does not exist in the child.
        with contextlib.suppress(OSError):
            os.close(self._socket.detach())

    def _listen(self) -> None:
        try:
            with self._socket.makefile("r") as lines:
                for line in lines:
                    command = Command.parse(json.loads(line))
                    with self._ready:
                        self._commands.append(command)
                        self._ready.notify()
        except BaseException:  # nobody would read commands any more
            traceback.print_exc()
        os._exit(1)  # the parent is gone, or sends what this worker cannot read

    def receive(self) -> Command:
        with self._ready:
            while not self._commands:
                self._ready.wait()
            return self._commands.pop(0)

    def send(self, event: Event) -> None:
        if self._socket.fileno() < 0:
            os._exit(1)  # a forked child that went on as if it were the worker
        with self._lock:
            self._socket.sendall(json.dumps(event.to_json()).encode() + b"\n")

    def lend(self, work: Callable[[], None]) -> None:
        """Work in a fork of this process, which uses the connection meanwhile: what the fork caches ends with it.

        This process ends as the fork does, so that the parent sees the right culprit.
        """
        self._lent = True
        child = os.fork()
        self._lent = False
        if child == 0:
            try:
                work()
                os._exit(0)
            except UserError as error:
                self.send(RequestRefused(message=error.message, detail=error.detail))
            except BaseException as error:
                traceback.print_exc()
                self.send(WorkerBroken(reason=explain(error)))
            os._exit(1)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            os.kill(os.getpid(), os.WTERMSIG(status))
        if os.WEXITSTATUS(status):
            os._exit(os.WEXITSTATUS(status))

    @contextlib.contextmanager
    def running(
        self, impl: str | None, phase: str, *, number: int | None = None, trial: TrialJson | None = None
    ) -> Iterator[None]:
        """Inside, a death of this process is blamed on the implementation; on nobody where `impl` is None."""
        self.send(PhaseBegun(impl=impl, phase=phase, number=number, trial=trial))
        try:
            yield
        finally:
            self.send(PhaseEnded(impl=impl, phase=phase))


@contextlib.contextmanager
def timing_lock(channel: Channel, device: torch.device) -> Iterator[None]:
    """One timing run per device at a time on this machine. The wait is announced and counts against nobody."""
    with (cache_dir("locks") / f"timing-{device_id(device)}").open("w") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            channel.send(WaitBegun(reason=f"another kernellab run is timing on {device}"))
            fcntl.flock(f, fcntl.LOCK_EX)
            channel.send(WaitEnded())
        os.register_at_fork(after_in_child=f.close)  # a forked child must not hold the lock either
        yield


def device_id(device: torch.device) -> str:
    """`cpu`, or a GPU's UUID: its number depends on CUDA_VISIBLE_DEVICES."""
    if device.type == "cpu":
        return "cpu"
    import torch

    return f"GPU-{torch.cuda.get_device_properties(device).uuid}"
