"""What the device and its neighbours were doing while something was timed.

`sample()` is called between calls that are timed, never during one: it reads, and changes nothing. A reading takes
below 1 ms. What cannot be read is None. `took_us` says what each one cost.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernellab.machine.nvml import Nvml

Sample = dict[str, Any]


def telemetry_for(device_id: str, *, threads: int | None = None, every_s: float | None = None) -> Telemetry:
    """For `cpu`, or a GPU by its UUID. `threads`: how many the timed work uses on the CPU, where that is known."""
    if device_id == "cpu":
        # The kernel counts busy time in steps of 10 ms: shorter spans would be mostly rounding.
        return Telemetry(CpuReader(threads).read, 0.25 if every_s is None else every_s)
    reader = GpuReader(Nvml(device_id))
    return Telemetry(reader.read, 0.05 if every_s is None else every_s, reader.neighbours.forget)


class Telemetry:
    """Samples at most every `every_s` seconds, and keeps them."""

    def __init__(self, read: Callable[[], Sample], every_s: float, forget: Callable[[], None] = lambda: None) -> None:
        self._read, self._every_s, self.forget = read, every_s, forget  # `forget` those who used the device before
        self._start = time.monotonic()
        self._last: float | None = None
        self._samples: list[Sample] = []

    @property
    def now(self) -> float:
        """Seconds since the beginning, the clock of `t`."""
        return time.monotonic() - self._start

    def sample(self, force: bool = False) -> Sample | None:
        """A new reading, or None when the last one is fresh enough."""
        t = self.now
        if not force and self._last is not None and t - self._last < self._every_s:
            return None
        self._last = t
        reading = {"t": round(t, 4), **self._read(), "took_us": round((self.now - t) * 1e6)}
        self._samples.append(reading)
        return reading

    def columns(self, since: float = 0.0) -> dict[str, list[Any]]:
        """The samples from this time on, one list per quantity: `since` leaves the warm-up out."""
        kept = [s for s in self._samples if s["t"] >= round(since, 4)]
        return {key: [s[key] for s in kept] for key in (kept[0] if kept else ())}


# GPU ---------------------------------------------------------------------------------------------------

# Bits of NVML's clock event reasons (nvml.h). Those that hold the clock below what the GPU would like …
_THROTTLES = {
    0x04: "sw-power-cap",
    0x08: "hw-slowdown",
    0x20: "sw-thermal",
    0x40: "hw-thermal",
    0x80: "power-brake",
}
# … and those that say why it is where it should be: nothing to do, or the owner wants it so.
_NOTES = {0x01: "gpu-idle", 0x02: "applications-clock", 0x10: "sync-boost", 0x100: "display-clock"}
_PROCESSES_EVERY_S = 0.25  # NVML renews this once in 1/6 s to 1 s: asking more often tells nothing new


class GpuReader:
    """Clocks, power, temperature, what holds the clock back, and who else is there."""

    def __init__(self, gpu: Nvml) -> None:
        self._gpu = gpu
        self.neighbours = Neighbours(gpu)

    def read(self) -> Sample:
        ask, number = self._gpu.ask, self._gpu.number
        milliwatts = number("nvmlDeviceGetPowerUsage")
        reasons = ask("nvmlDeviceGetCurrentClocksEventReasons nvmlDeviceGetCurrentClocksThrottleReasons")
        used = ask("nvmlDeviceGetUtilizationRates")
        return {
            "sm_mhz": number("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
            "mem_mhz": number("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
            "power_w": None if milliwatts is None else milliwatts / 1e3,
            "temp_c": number("nvmlDeviceGetTemperatureV nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
            "throttle": _words(reasons, _THROTTLES),
            "notes": _words(reasons, _NOTES),
            "util": None if used is None else int(used.gpu),
            "others": self.neighbours.count(),
        }


def _words(bits: Any, names: dict[int, str]) -> list[str] | None:
    return [word for bit, word in names.items() if bits & bit] if isinstance(bits, int) else None


class Neighbours:
    """How many other processes have run something on the GPU since the beginning, or since they were forgotten.

    NVML names processes by their number on the host. Where this process finds its own number among them, all
    the others count. Inside a container it has another number there, which it cannot learn: then one of those
    seen is taken to be this process, which is timing and so busy, and the rest count. A lone stranger beside
    an idle process of ours is missed that way; nobody is accused wrongly.

    The first answer only sets the beginning: it may be about the time before. Until the second, None.
    """

    def __init__(self, gpu: Nvml) -> None:
        self._gpu = gpu
        self._own = own_pids()
        self._asked = time.monotonic()
        self._seen_until: int | None = None  # on NVML's clock
        self._busy: set[int] = set()
        self._count: int | None = None

    def count(self) -> int | None:
        now = time.monotonic()
        if now - self._asked >= _PROCESSES_EVERY_S:
            self._asked = now
            self._look()
        return self._count

    def forget(self) -> None:
        self._busy.clear()
        self._count = None if self._count is None else 0

    def _look(self) -> None:
        samples = self._gpu.busy_processes(self._seen_until or 0)
        if samples is None:
            return
        before, first = self._seen_until or 0, self._seen_until is None
        self._seen_until = max([before, *(int(s.timeStamp) for s in samples)])
        if first:
            return
        # Some drivers leave entries unfilled: a share above 100 or no process is one of those.
        fresh = (s for s in samples if s.timeStamp > before and 0 < s.smUtil <= 100 and s.pid > 0)
        self._busy |= {int(s.pid) for s in fresh}
        strangers = len(self._busy - self._own)
        self._count = strangers if self._busy & self._own else max(0, strangers - 1)


def own_pids() -> frozenset[int]:
    """This process's number here, and in the outer namespaces where the system tells them."""
    found = {os.getpid()}
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                found |= {int(number) for number in line.split()[1:]}
    return frozenset(found)


# CPU ---------------------------------------------------------------------------------------------------

_BUSY = (0, 1, 2, 5, 6)  # columns of /proc/stat: user, nice, system, irq, softirq; user includes guests
_STEAL = 7
_FREQUENCY_CORES = 4  # a few cores speak for all: each file costs a read


class CpuReader:
    """Load, what other processes and the hypervisor took from our cores, and the clock where it can be read.

    Ours are the cores we may run on, and this process with everything it has started. The process that started
    it, kernellab's own, counts with the others: it is nearly idle while something is timed.
    """

    def __init__(self, threads: int | None) -> None:
        self._threads = threads
        self._cores = _cores()
        self._family = Family()
        self._before = self._counters()

    def read(self) -> Sample:
        before, now = self._before, self._counters()
        self._before = now
        others = steal = None
        span = now["at"] - before["at"]
        if span > 0 and before["busy"] is not None and now["busy"] is not None:
            own = now["own"] - before["own"]
            # Less than before: a process of ours ended and nobody collected its time. Then there is no saying.
            others = round((now["busy"] - before["busy"] - own) / span, 3) if own >= 0 else None
            steal = round((now["steal"] - before["steal"]) / span / len(self._cores), 4)
        return {
            "span_s": round(span, 4),
            "load1": _load1(),
            "others_cores": others,
            "steal": steal,
            "mhz": _mhz(self._cores),
            "threads": self._threads,
            "cores": len(self._cores),
        }

    def _counters(self) -> dict[str, Any]:
        busy, steal = _core_seconds(self._cores)
        return {"at": time.monotonic(), "busy": busy, "steal": steal, "own": self._family.cpu_seconds()}


class Family:
    """The processor time of this process and everything it has started, dead or alive.

    Processes that turned out to be strangers are remembered, so that a sample looks only at new ones.
    """

    def __init__(self) -> None:
        self._ours: set[int] = set()
        self._strangers: set[int] = set()

    def cpu_seconds(self) -> float:
        self._look()
        dead = os.times()
        living = (_stat(pid) for pid in self._ours)
        # Fields 14 to 17 of proc(5): its own user and system time, and those of its children it has waited for.
        ticks = sum(sum(map(int, fields[11:15])) for fields in living if fields)
        return time.process_time() + dead.children_user + dead.children_system + ticks * _TICK_S

    def _look(self) -> None:
        try:
            present = {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208
        except OSError:
            return
        me = os.getpid()
        self._ours &= present
        self._strangers &= present
        new = present - self._ours - self._strangers - {me}
        parents = {pid: int(fields[1]) for pid in new if (fields := _stat(pid))}
        while found := {pid for pid, parent in parents.items() if parent == me or parent in self._ours} - self._ours:
            self._ours |= found
        self._strangers |= parents.keys() - self._ours


_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str] | None:
    """/proc/PID/stat behind the name, which may hold blanks and brackets: state, parent, …"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _cores() -> frozenset[int]:
    affinity = getattr(os, "sched_getaffinity", None)
    return frozenset(affinity(0) if affinity else range(os.cpu_count() or 1))


def _core_seconds(cores: frozenset[int]) -> tuple[float | None, float | None]:
    """Busy and stolen seconds of these cores since the system started; None where it does not say."""
    busy = steal = 0
    try:
        for line in Path("/proc/stat").read_text().splitlines():
            name, *ticks = line.split()
            if not name.startswith("cpu"):
                break
            if name != "cpu" and int(name[3:]) in cores:
                busy += sum(int(ticks[i]) for i in _BUSY)
                steal += int(ticks[_STEAL])
    except (OSError, ValueError, IndexError):
        return None, None
    if not busy:
        return None, None  # a sandbox that answers with zeros
    return busy * _TICK_S, steal * _TICK_S


def _load1() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _mhz(cores: frozenset[int]) -> float | None:
    found = []
    with contextlib.suppress(OSError, ValueError):
        for core in sorted(cores)[:_FREQUENCY_CORES]:
            file = Path(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq")
            found.append(int(file.read_text()) / 1e3)
    if not found:
        with contextlib.suppress(OSError, ValueError):
            lines = Path("/proc/cpuinfo").read_text().splitlines()
            found = [float(line.split(":")[1]) for line in lines if line.startswith("cpu MHz")]
    return round(sum(found) / len(found), 1) if found else None
