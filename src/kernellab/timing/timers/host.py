"""The `host` timer: a clock around a loop of calls and the wait for the last of them."""

from __future__ import annotations

from kernellab.timing.host_loop import HostLoopTimer
from kernellab.timing.window import wait_for


class HostTimer(HostLoopTimer):
    name = "host"
    overhead_rank = 5
    measures = "on the host, a loop of calls and one wait: what an eager program pays per call"
    help = "what an eager program pays per call"

    def end_loop(self) -> None:
        wait_for(self.device)
