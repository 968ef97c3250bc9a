"""What the device and its other users do while something is timed.

`sample()` is called between timed calls, never during one. It only reads. A reading takes less than 1 ms, and `took_us`
says how long it took. A quantity that cannot be read is None.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kernellab.base.json import JsonValue
from kernellab.machine.cpu_telemetry import CpuReader
from kernellab.machine.gpu_telemetry import GpuReader
from kernellab.machine.nvml import Nvml

Sample = dict[str, JsonValue]

# Linux counts busy time in steps of 10 ms: shorter spans would be mostly rounding error.
_CPU_EVERY_S, _GPU_EVERY_S = 0.25, 0.05


def telemetry_for(device_id: str, *, threads: int | None = None, every_s: float | None = None) -> Telemetry:
    """For `cpu`, or a GPU by its UUID. `threads`: how many threads the timed work uses on the CPU, if that is known."""
    if device_id == "cpu":
        return Telemetry(CpuReader(threads).read, _CPU_EVERY_S if every_s is None else every_s)
    reader = GpuReader(Nvml(device_id))
    every_s = _GPU_EVERY_S if every_s is None else every_s
    return Telemetry(reader.read, every_s, reader.other_users.forget, reader.clock_mhz)


class Telemetry:
    """Takes a sample at most every `every_s` seconds, and keeps all samples.

    `forget()` forgets the processes that used the device before. `clock_mhz()` reads nothing but the clock of a GPU,
    which takes about 20 µs: it can be asked for every burst.
    """

    def __init__(
        self,
        read: Callable[[], Sample],
        every_s: float,
        forget: Callable[[], None] = lambda: None,
        clock_mhz: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._read, self._every_s, self.forget, self.clock_mhz = read, every_s, forget, clock_mhz
        self._start = time.monotonic()
        self._last: float | None = None
        self._samples: list[tuple[float, Sample]] = []

    @property
    def now(self) -> float:
        """Seconds since the start: the clock of the column `t`."""
        return time.monotonic() - self._start

    def sample(self, force: bool = False) -> Sample | None:
        """A new reading; None if the last one is recent enough."""
        t = self.now
        if not force and self._last is not None and t - self._last < self._every_s:
            return None
        self._last = t
        reading: Sample = {"t": round(t, 4), **self._read(), "took_us": round((self.now - t) * 1e6)}
        self._samples.append((round(t, 4), reading))
        return reading

    def columns(self, since: float = 0.0) -> dict[str, list[JsonValue]]:
        """The samples from this time on, one list per quantity. `since` leaves the warm-up out."""
        samples = [sample for t, sample in self._samples if t >= round(since, 4)]
        return {key: [sample[key] for sample in samples] for key in (samples[0] if samples else ())}
