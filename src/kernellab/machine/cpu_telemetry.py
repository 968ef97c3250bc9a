"""A reading of the CPU: load, the time that other processes and the hypervisor took from our cores, and the clock.

Our cores are those that this process may run on. Our processes are this one and all its descendants. kernellab's parent
process counts among the others: it is nearly idle while something is timed.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from kernellab.base.json import JsonValue

_BUSY_COLUMNS = (0, 1, 2, 5, 6)  # of /proc/stat: user, nice, system, irq, softirq; user includes guests
_STEAL_COLUMN = 7
_FREQUENCY_CORES = 4  # cores whose clock is read: reading every core's file would take too long
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class CoreTime:
    """Seconds since the system started, summed over some cores."""

    busy: float
    steal: float


@dataclass(frozen=True)
class _Counters:
    at: float
    cores: CoreTime | None  # None if the system does not report it
    own: float


class CpuReader:
    def __init__(self, threads: int | None) -> None:
        self._threads = threads
        self._cores = _our_cores()
        self._processes = OwnProcesses()
        self._before = self._count()

    def read(self) -> dict[str, JsonValue]:
        before, now = self._before, self._count()
        self._before = now
        others = steal = None
        span_s = now.at - before.at
        if span_s > 0 and before.cores is not None and now.cores is not None:
            own = now.own - before.own
            # Less than before: one of our processes ended and its time was not collected, so the others' is unknown.
            others = round((now.cores.busy - before.cores.busy - own) / span_s, 3) if own >= 0 else None
            steal = round((now.cores.steal - before.cores.steal) / span_s / len(self._cores), 4)
        return {
            "span_s": round(span_s, 4),
            "load1": _load1(),
            "others_cores": others,
            "steal": steal,
            "mhz": _clock_mhz(self._cores),
            "threads": self._threads,
            "cores": len(self._cores),
        }

    def _count(self) -> _Counters:
        return _Counters(time.monotonic(), core_time(self._cores), self._processes.cpu_seconds())


class OwnProcesses:
    """The CPU time of this process and all its descendants, running or ended.

    PIDs of other processes are remembered, so that a sample examines only new ones.
    """

    def __init__(self) -> None:
        self._ours: set[int] = set()
        self._others: set[int] = set()

    def cpu_seconds(self) -> float:
        self._find()
        ended = os.times()
        alive = (_read_stat(pid) for pid in self._ours)
        # Fields 14 to 17 of proc(5): user and system time of the process, and of the children it has waited for.
        ticks = sum(sum(map(int, fields[11:15])) for fields in alive if fields)
        return time.process_time() + ended.children_user + ended.children_system + ticks * _TICK_S

    def _find(self) -> None:
        try:
            present = {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208
        except OSError:
            return
        me = os.getpid()
        self._ours &= present
        self._others &= present
        new = present - self._ours - self._others - {me}
        parents = {pid: int(fields[1]) for pid in new if (fields := _read_stat(pid))}
        while ours := {pid for pid, parent in parents.items() if parent == me or parent in self._ours} - self._ours:
            self._ours |= ours
        self._others |= parents.keys() - self._ours


def _read_stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name, which may contain spaces and parentheses: state, parent, …"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _our_cores() -> frozenset[int]:
    affinity = getattr(os, "sched_getaffinity", None)
    return frozenset(affinity(0) if affinity else range(os.cpu_count() or 1))


def core_time(cores: frozenset[int]) -> CoreTime | None:
    """The time of these cores; None if the system does not report it, as in a sandbox that answers with zeros."""
    busy = steal = 0
    try:
        for line in Path("/proc/stat").read_text().splitlines():
            name, *ticks = line.split()
            if not name.startswith("cpu"):
                break
            if name != "cpu" and int(name[3:]) in cores:
                busy += sum(int(ticks[i]) for i in _BUSY_COLUMNS)
                steal += int(ticks[_STEAL_COLUMN])
    except (OSError, ValueError, IndexError):
        return None
    return CoreTime(busy * _TICK_S, steal * _TICK_S) if busy else None


def _load1() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _clock_mhz(cores: frozenset[int]) -> float | None:
    clocks = []
    with contextlib.suppress(OSError, ValueError):
        for core in sorted(cores)[:_FREQUENCY_CORES]:
            file = Path(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq")
            clocks.append(int(file.read_text()) / 1e3)
    if not clocks:
        with contextlib.suppress(OSError, ValueError):
            lines = Path("/proc/cpuinfo").read_text().splitlines()
            clocks = [float(line.split(":")[1]) for line in lines if line.startswith("cpu MHz")]
    return round(sum(clocks) / len(clocks), 1) if clocks else None
