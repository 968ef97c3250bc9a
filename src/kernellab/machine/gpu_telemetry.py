"""A reading of a GPU: clocks, power, temperature, throttling, and how many other processes use it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

from kernellab.base.json import JsonValue
from kernellab.machine.nvml import Nvml

# Bits of NVML's clock event reasons (nvml.h). These keep the clock below the rate at which the GPU would run …
_THROTTLES = {
    0x04: "sw-power-cap",
    0x08: "hw-slowdown",
    0x20: "sw-thermal",
    0x40: "hw-thermal",
    0x80: "power-brake",
}
# … and these explain a clock that is as intended: the GPU is idle, or its owner set the clock.
_NOTES = {0x01: "gpu-idle", 0x02: "applications-clock", 0x10: "sync-boost", 0x100: "display-clock"}
_NEWS_AFTER_S = 1.5  # NVML has seen by then what happened before
_PROCESSES_EVERY_S = 0.25  # NVML updates its list every 1/6 s to 1 s: more frequent queries return nothing new


class GpuReader:
    def __init__(self, gpu: Nvml) -> None:
        self._gpu = gpu
        self.other_users = OtherUsers(gpu)

    def read(self) -> dict[str, JsonValue]:
        ask, number = self._gpu.ask, self._gpu.number
        reasons = ask("nvmlDeviceGetCurrentClocksEventReasons nvmlDeviceGetCurrentClocksThrottleReasons")
        utilization = getattr(ask("nvmlDeviceGetUtilizationRates"), "gpu", None)
        return {
            "sm_mhz": number("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
            "mem_mhz": number("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
            "power_w": _watts(number("nvmlDeviceGetPowerUsage")),
            "limit_w": _watts(number("nvmlDeviceGetEnforcedPowerLimit")),
            "temp_c": number("nvmlDeviceGetTemperatureV nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
            "throttle": _names_of_bits(reasons, _THROTTLES),
            "notes": _names_of_bits(reasons, _NOTES),
            "util": None if utilization is None else int(utilization),
            "others": self.other_users.count(),
        }

    def clock_mhz(self) -> float | None:
        return self._gpu.number("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM")


def _watts(milliwatts: float | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1e3


def _names_of_bits(bits: object, names: Mapping[int, str]) -> list[JsonValue] | None:
    return [name for bit, name in names.items() if bits & bit] if isinstance(bits, int) else None


class OtherUsers:
    """How many processes other than `pid` have used the GPU since the start, or since `forget`.

    NVML lists processes by their host PIDs. If that of `pid` is among them, all others count. Inside a container,
    processes have other PIDs on the host, which cannot be learned. Then one of the listed processes is assumed to be
    `pid`, which is timing and therefore busy, and the rest count. That misses a single other process while ours is
    idle, but it never reports a process that does not exist.

    NVML's first answer only sets the start, because it may describe the time before. Until the second, the count is
    None.
    """

    def __init__(self, gpu: Nvml, pid: int | None = None) -> None:
        """`pid`: this process unless it is given."""
        self._gpu = gpu
        self._own = pids_of(os.getpid() if pid is None else pid)
        self._last_query = time.monotonic()
        self._seen_until: int | None = None  # on NVML's clock
        self._busy: set[int] = set()
        self._count: int | None = None

    def count(self) -> int | None:
        now = time.monotonic()
        if now - self._last_query >= _PROCESSES_EVERY_S:
            self._last_query = now
            self._query()
        return self._count

    def start(self) -> None:
        """Count from now on."""
        self._query()

    def wait_for_count(self) -> int:
        """The count, once NVML has had the time to see what happened until now; 0 if it says nothing."""
        deadline = time.monotonic() + _NEWS_AFTER_S
        while time.monotonic() < deadline:
            time.sleep(_PROCESSES_EVERY_S)
            if self.count():
                break
        return self._count or 0

    def forget(self) -> None:
        self._busy.clear()
        self._count = None if self._count is None else 0

    def _query(self) -> None:
        uses = self._gpu.process_use(self._seen_until or 0)
        if uses is None:
            return
        before, first = self._seen_until or 0, self._seen_until is None
        self._seen_until = max([before, *(use.timestamp for use in uses)])
        if first:
            return
        # Some drivers leave entries unfilled: these have a share above 100, or no PID.
        self._busy |= {use.pid for use in uses if use.timestamp > before and 0 < use.sm_percent <= 100 and use.pid > 0}
        others = len(self._busy - self._own)
        self._count = others if self._busy & self._own else max(0, others - 1)


def pids_of(pid: int) -> frozenset[int]:
    """The PIDs of a process, here and in the outer namespaces that the system reports."""
    pids = {pid}
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                pids |= {int(number) for number in line.split()[1:]}
    return frozenset(pids)
