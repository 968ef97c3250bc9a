"""The `launch` timer: a clock around a loop of calls without waiting for them."""

from __future__ import annotations

from kernellab.timing.host_loop import HostLoopTimer


class LaunchTimer(HostLoopTimer):
    name = "launch"
    is_duration = False
    overhead_rank = 4
    measures = "on the host, a loop of calls without waiting: launch overhead, not how long a call takes"
    help = "host overhead of a launch"

    def end_loop(self) -> None:
        """Does not wait."""
