"""What code inside a worker may say to its parent: who is running, what was observed, that it must be replaced."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from kernellab.base.errors import UserError
from kernellab.base.paths import cache_dir
from kernellab.base.user_code import explain


class GpuGone(Exception):
    """The GPU context is unusable after a fault: this process has to be replaced."""


class Channel:
    """JSON lines to the parent, and commands from it."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._lent = False
        os.register_at_fork(after_in_child=self._leave)
        self._lock = threading.Lock()
        self._commands: list[dict[str, Any]] = []
        self._ready = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def _leave(self) -> None:
        """A child an implementation forks must not keep the line open when this process is gone, nor speak on it."""
        if self._lent:
            return
        # `close` would wait for the listener's file, whose thread is not in the child.
        with contextlib.suppress(OSError):
            os.close(self._socket.detach())

    def _listen(self) -> None:
        with self._socket.makefile("r") as lines:
            for line in lines:
                with self._ready:
                    self._commands.append(json.loads(line))
                    self._ready.notify()
        os._exit(1)  # the parent is gone

    def receive(self) -> dict[str, Any]:
        with self._ready:
            while not self._commands:
                self._ready.wait()
            return self._commands.pop(0)

    def send(self, event: str, **fields: Any) -> None:
        if self._socket.fileno() < 0:
            os._exit(1)  # a forked child that went on as if it were the worker: one is enough
        with self._lock:
            self._socket.sendall(json.dumps({"event": event, **fields}).encode() + b"\n")

    def lend(self, work: Callable[[], None]) -> None:
        """Work in a fork of this process, which has the line meanwhile: what it remembers ends with it.

        How it ends is how this process ends, so that the parent blames whoever was running.
        """
        self._lent = True
        child = os.fork()
        self._lent = False
        if child == 0:
            try:
                work()
                os._exit(0)
            except UserError as error:
                self.send("refused", message=error.message, detail=error.detail)
            except BaseException as error:
                traceback.print_exc()
                self.send("broken", reason=explain(error))
            os._exit(1)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            os.kill(os.getpid(), os.WTERMSIG(status))
        if os.WEXITSTATUS(status):
            os._exit(os.WEXITSTATUS(status))

    @contextlib.contextmanager
    def running(self, impl: str | None, phase: str, **what: Any) -> Iterator[None]:
        """Between begin and end, whatever happens to this process is the implementation's doing (None: nobody's)."""
        self.send("begin", impl=impl, phase=phase, **what)
        try:
            yield
        finally:
            self.send("end", impl=impl, phase=phase)


@contextlib.contextmanager
def timing_lock(channel: Channel, device: Any) -> Iterator[None]:
    """One timing run per device at a time on this machine; waiting is announced, and counts against nobody."""
    with (cache_dir("locks") / f"timing-{device_id(device)}").open("w") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            channel.send("waiting", reason=f"another kernellab run is timing on {device}")
            fcntl.flock(f, fcntl.LOCK_EX)
            channel.send("waited")
        os.register_at_fork(after_in_child=f.close)  # a forked child must not hold the lock either
        yield


def device_id(device: Any) -> str:
    """`cpu`, or a GPU's UUID: its number depends on CUDA_VISIBLE_DEVICES."""
    if device.type == "cpu":
        return "cpu"
    import torch

    return f"GPU-{torch.cuda.get_device_properties(device).uuid}"
