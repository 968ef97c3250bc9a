"""The `clock` timer: a monotonic clock around calls on the CPU."""

from __future__ import annotations

from time import perf_counter_ns  # bound here: an implementation may replace time.perf_counter_ns

from kernellab.timing.cpu_windows import CpuWindowTimer


class ClockTimer(CpuWindowTimer):
    """An empty call takes tens of nanoseconds, so there is no floor to subtract."""

    name = "clock"
    default_on = ("cpu",)
    overhead_rank = 3
    measures = "time on the CPU"
    help = "time on the CPU, the default there"
    read_ns = staticmethod(perf_counter_ns)
