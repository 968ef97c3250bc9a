"""The worker process: executes op files, checks and times, and says who is running at every moment.

It reads commands and writes events as JSON lines on one private socket. Standard output belongs to
the implementations and goes to a log. It decides nothing about the run: when it dies, its parent
knows from the last `begin` without an `end` whose fault it was.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from kernellab.blame import explain
from kernellab.case import Case, CaseRequest
from kernellab.errors import UserError
from kernellab.machine.paths import cache_dir
from kernellab.targets import Target

_PR_SET_PDEATHSIG = 1


class Channel:
    """JSON lines to the parent, and commands from it."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._lock = threading.Lock()
        self._commands: list[dict[str, Any]] = []
        self._ready = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

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
        with self._lock:
            self._socket.sendall(json.dumps({"event": event, **fields}).encode() + b"\n")

    @contextlib.contextmanager
    def running(self, impl: str, phase: str) -> Iterator[None]:
        """Between begin and end, whatever happens to this process is the implementation's doing."""
        self.send("begin", impl=impl, phase=phase)
        try:
            yield
        finally:
            self.send("end", impl=impl, phase=phase)


def die_with_parent(parent: int, lifeline: int, channel: int) -> None:
    """End with the parent, whatever an implementation is doing or has started, and first when memory runs out.

    The kernel is asked to kill this process; a guardian, which no implementation can hold up, kills the
    rest of the process group. It waits for the end of the parent's pipe.
    """
    if os.fork() == 0:
        os.close(channel)  # or the parent would not see this worker's death
        os.read(lifeline, 1)
        os.killpg(0, signal.SIGKILL)
    os.close(lifeline)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the request was in place
        os._exit(1)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as f:  # noqa: PTH123
        f.write("1000")


class GpuGone(Exception):
    """The GPU context is unusable after a fault: this process has to be replaced."""


class Worker:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.ops: dict[str, Any] = {}

    def serve(self) -> None:
        while True:
            command = self.channel.receive()
            try:
                getattr(self, "do_" + command.pop("do"))(**command)
            except UserError as error:
                self.channel.send("refused", message=error.message, detail=error.detail)
            except GpuGone:
                self.channel.send("replace")
                os._exit(0)
            self.channel.send("done")

    def do_load(self, target: dict[str, str], request: dict[str, Any], device: str, impls: list[str]) -> None:
        """Execute the target and describe its ops: what the parent needs to plan."""
        import torch

        from kernellab.running.describe import choose_device, describe
        from kernellab.targets import load

        self.device = choose_device(device)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        torch._dynamo.config.fail_on_recompile_limit_hit = True
        self.ops = load(Target(**target))
        asked = CaseRequest(**request)
        for op in self.ops.values():
            self.channel.send("op", **describe(op, asked, self.device, impls))
        self.channel.send("loaded", device=str(self.device), torch=torch.__version__, cuda=torch.version.cuda)

    def do_ceilings(self) -> None:
        from kernellab.timing import ceilings

        with timing_lock(self.channel, self.device):
            self.channel.send("ceilings", **ceilings.measure(self.device))

    def do_group(
        self,
        op: str,
        case: dict[str, Any],
        check: list[str],
        time: list[str],
        distrusted: list[str],
        seed: int,
        interpreted: bool,
        timing: dict[str, Any],
    ) -> None:
        """Check ways at a case, then time the ones that are right, interleaved."""
        from kernellab.running.group import Group

        group = Group(
            self.channel, self.ops[op], Case.from_json(case), self.device, seed, interpreted, frozenset(distrusted)
        )
        with contextlib.closing(group):
            right = group.check(check)
            group.time([name for name in time if name in right or name not in check], **timing)

    def do_kernels(self, op: str, case: dict[str, Any], impls: list[str], seed: int) -> None:
        from kernellab.running.group import forget_compiled
        from kernellab.running.kernels import kernels_of

        forget_compiled(self.ops[op])
        for name in impls:
            with self.channel.running(name, "kernels"):
                try:
                    found = kernels_of(self.ops[op], self.ops[op][name], Case.from_json(case), self.device, seed)
                except Exception as error:  # not counting is no fault of the way: it is right and timed
                    guard = {"name": "kernels", "detail": f"its kernels could not be counted: {explain(error)}"}
                    self.channel.send("guard", impl=name, guard=guard)
                    continue
            self.channel.send("kernels", impl=name, kernels=found)


@contextlib.contextmanager
def timing_lock(channel: Channel, device: Any) -> Iterator[None]:
    """One timing run per device at a time on this machine; waiting is announced, and counts against nobody."""
    name = str(device).replace(":", "")
    with (cache_dir("locks") / f"timing-{name}").open("w") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            channel.send("waiting", reason=f"another kernellab run is timing on {device}")
            fcntl.flock(f, fcntl.LOCK_EX)
        yield


def main() -> None:
    fd, lifeline, parent = map(int, sys.argv[1:4])
    kind = sys.argv[4]
    die_with_parent(parent, lifeline, fd)
    channel = Channel(fd)
    if kind == "interpreter":
        from kernellab.checking.interpreter import prepare

        prepare()
    started = time.monotonic()
    import torch  # noqa: F401

    channel.send("hello", pid=os.getpid(), import_s=time.monotonic() - started)
    Worker(channel).serve()


if __name__ == "__main__":
    main()
