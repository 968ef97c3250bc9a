"""The worker's end of the connection to its parent: it sends events and receives commands."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from kernellab.base.errors import UserError
from kernellab.base.paths import cache_dir
from kernellab.base.user_code import explain
from kernellab.record.event import Event
from kernellab.record.result_events import PhaseBegun, PhaseEnded
from kernellab.record.schema import TrialJson
from kernellab.running.protocol.commands import Command, ReleaseKey
from kernellab.running.protocol.events import KeyAsked, KeyKept, RequestRefused, WaitBegun, WaitEnded, WorkerBroken

if TYPE_CHECKING:
    import torch

_Answer = TypeVar("_Answer", bound=Command)


class GpuContextLost(Exception):
    """The GPU's context is unusable after a fault: this process has to be replaced."""


class ParentKeeper:
    """Has the parent keep the keys of locked oracles."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._tickets = itertools.count(1)

    def keep(self, key: int, checksum: int) -> int:
        ticket = next(self._tickets)
        self._channel.send(KeyKept(ticket=ticket, key=key, checksum=checksum))
        return ticket

    def release(self, ticket: int) -> tuple[int, int] | None:
        kept = self._channel.ask(KeyAsked(ticket=ticket), ReleaseKey)
        return (kept.key, kept.checksum) if kept.key is not None and kept.checksum is not None else None


class Channel:
    """Sends events to the parent and receives its commands, as JSON lines on a socket."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._child_may_send = False
        os.register_at_fork(after_in_child=self._close_in_child)
        self._lock = threading.Lock()
        self._commands: list[Command] = []
        self._ready = threading.Condition()
        self.keeper = ParentKeeper(self)
        threading.Thread(target=self._listen, daemon=True).start()

    def _close_in_child(self) -> None:
        """Close the connection in a child that an implementation forks: the parent would wait until that child ends."""
        if self._child_may_send:
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
        except BaseException:  # without this thread no command would be read
            traceback.print_exc()
        os._exit(1)  # the parent has ended, or sent something that this worker cannot read

    def receive(self) -> Command:
        with self._ready:
            while not self._commands:
                self._ready.wait()
            return self._commands.pop(0)

    def send(self, event: Event) -> None:
        if self._socket.fileno() < 0:
            os._exit(1)  # this is a forked child that continued as if it were the worker
        with self._lock:
            self._socket.sendall(json.dumps(event.to_json()).encode() + b"\n")

    def ask(self, question: Event, answer: type[_Answer]) -> _Answer:
        """Send a question and wait for the parent's answer."""
        self.send(question)
        command = self.receive()
        if not isinstance(command, answer):
            raise TypeError(f"expected `{answer.message_name}`, received `{command.message_name}`")
        return command

    def run_in_fork(self, work: Callable[[], None]) -> None:
        """Run `work` in a fork of this process, so that what it caches is gone afterwards.

        The fork uses the connection meanwhile. If the fork is killed or fails, this process ends in the same manner,
        so that the parent finds the right culprit.
        """
        self._child_may_send = True
        child = os.fork()
        self._child_may_send = False
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
        """If this process dies inside the body, the implementation is the culprit; None if `impl` is None."""
        self.send(PhaseBegun(impl=impl, phase=phase, number=number, trial=trial))
        try:
            yield
        finally:
            self.send(PhaseEnded(impl=impl, phase=phase))


@contextlib.contextmanager
def timing_lock(channel: Channel, device: torch.device) -> Iterator[None]:
    """Held while timing: one run per device at a time on this machine. Waiting is reported and not timed out."""
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
