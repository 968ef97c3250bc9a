"""The worker process: executes op files, checks and times, and says who is running at every moment.

It reads commands and writes events as JSON lines on one private socket. Standard output belongs to
the implementations and goes to a log. It decides nothing about the run: when it dies, its parent
knows from the last `begin` without an `end` whose fault it was.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from kernellab.blame import explain
from kernellab.case import CaseRequest
from kernellab.errors import UserError
from kernellab.running.channel import Channel, GpuGone, device_id, timing_lock
from kernellab.targets import Target

_PR_SET_PDEATHSIG = 1


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
            except BaseException as error:  # ours, not an implementation's: say what happened and start afresh
                traceback.print_exc()
                self.channel.send("broken", reason=explain(error))
                os._exit(1)
            self.channel.send("done")

    def do_device(self, device: str) -> None:
        """Choose the device everything else here runs on."""
        import torch

        from kernellab.running.describe import choose_device

        self.device = choose_device(device)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        facts = {"torch": torch.__version__, "cuda": torch.version.cuda, "uuid": device_id(self.device)}
        self.channel.send("device", device=str(self.device), **facts)

    def do_load(self, target: dict[str, str], request: dict[str, Any], impls: list[str]) -> None:
        """Execute the target and describe its ops: what the parent needs to plan."""
        import torch

        from kernellab.running.describe import describe
        from kernellab.targets import load

        torch._dynamo.config.fail_on_recompile_limit_hit = True
        self.ops = load(Target(**target))
        for op in self.ops.values():
            self.channel.send("op", **describe(op, CaseRequest(**request), self.device, impls))

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
        from kernellab.running.group import GroupWork

        loaded = self.ops[op]
        group = GroupWork(
            self.channel, loaded, loaded.case(case), self.device, seed, interpreted, frozenset(distrusted)
        )
        with contextlib.closing(group):
            right = group.check(check)
            group.time([name for name in time if name in right or name not in check], **timing)

    def do_kernels(self, op: str, case: dict[str, Any], impls: list[str], seed: int) -> None:
        from kernellab.running.group import forget_compiled
        from kernellab.running.kernels import kernels_of

        loaded = self.ops[op]
        forget_compiled(loaded)
        for name in impls:
            with self.channel.running(name, "kernels"):
                try:
                    found = kernels_of(loaded, loaded[name], loaded.case(case), self.device, seed)
                except Exception as error:  # not counting is no fault of the way: it is right and timed
                    guard = {"name": "kernels", "detail": f"its kernels could not be counted: {explain(error)}"}
                    self.channel.send("guard", impl=name, guard=guard)
                    continue
            self.channel.send("kernels", impl=name, kernels=found)


def main() -> None:
    fd, lifeline, parent = map(int, sys.argv[1:4])
    kind = sys.argv[4]
    die_with_parent(parent, lifeline, fd)
    sys.path.append(str(Path.cwd()))  # last, so that nothing beside the user's files hides an installed module
    if kind == "interpreter":
        from kernellab.checking.interpreter import prepare

        prepare()
    Worker(Channel(fd)).serve()


if __name__ == "__main__":
    main()
