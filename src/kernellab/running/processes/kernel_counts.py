"""What the system counts of a process: how long its threads ran and waited for a core, and its page faults."""

from __future__ import annotations

import contextlib
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns

_COMPUTES = 0.01  # of the time: a thread that runs for less is no part of the computation
_TICKS_TO_COUNT = 2  # fewer may be a tick that happened to fall into the system
_PROBED_PAGES = 512
_FAULTS, _SYSTEM_TICKS = 7, 12  # fields of /proc/PID/stat, counted from the state
_TICK_US = 1e6 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class KernelCounts:
    """Of a process since it began. Empty where the system does not tell."""

    pid: int
    ran_us: dict[int, float]  # by thread
    waited_us: dict[int, float]  # by thread: ready to run, and another thread had the core
    page_faults: int
    system_us: float  # in the system, in whole ticks

    def delay_since(self, before: KernelCounts, elapsed_us: float) -> float:
        """The most microseconds that the threads which compute were kept from running. They wait for each other, so
        what one of them lost may be counted twice."""
        least_us = _COMPUTES * elapsed_us
        ran_us = {thread: us - before.ran_us.get(thread, 0.0) for thread, us in self.ran_us.items()}
        computing = [thread for thread, us in ran_us.items() if us >= least_us or thread == self.pid]
        return sum(self.waited_us[thread] - before.waited_us.get(thread, 0.0) for thread in computing)

    def ran_since(self, before: KernelCounts) -> float:
        """How many microseconds the threads ran, in sum."""
        return sum(us - before.ran_us.get(thread, 0.0) for thread, us in self.ran_us.items())

    def mapping_since(self, before: KernelCounts) -> float:
        """About how many microseconds the system took to map memory for the process."""
        faults = self.page_faults - before.page_faults
        system_us = self.system_us - before.system_us
        return max(system_us if system_us >= _TICKS_TO_COUNT * _TICK_US else 0.0, faults and faults * page_fault_us())


def read_kernel_counts(pid: int) -> KernelCounts:
    ran_us, waited_us = {}, {}
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, IndexError, ValueError):  # the thread has ended
            ran_ns, waited_ns = map(int, file.read_text().split()[:2])
            thread = int(file.parent.name)
            ran_us[thread], waited_us[thread] = ran_ns / 1e3, waited_ns / 1e3
    page_faults, system_us = 0, 0.0
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        page_faults, system_us = int(fields[_FAULTS]), int(fields[_SYSTEM_TICKS]) * _TICK_US
    return KernelCounts(pid, ran_us, waited_us, page_faults, system_us)


def own_wait_us() -> float:
    """Microseconds that the calling thread has waited for a core since it began; 0 where the system does not tell."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e3
    except (OSError, IndexError, ValueError):
        return 0.0


def page_fault_us() -> float:
    """Microseconds that the system takes to map a page of memory when it is first written, now."""
    size = _PROBED_PAGES * mmap.PAGESIZE
    with mmap.mmap(-1, size) as memory:
        before_ns = perf_counter_ns()
        _touch(memory, size)
        mapped_ns = perf_counter_ns()
        _touch(memory, size)
        return max(0.0, (2 * mapped_ns - before_ns - perf_counter_ns()) / 1e3 / _PROBED_PAGES)


def _touch(memory: mmap.mmap, size: int) -> None:
    for place in range(0, size, mmap.PAGESIZE):
        memory[place] = 1
