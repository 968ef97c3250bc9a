"""Measures the machine's ceilings: copy bandwidth and matmul rate.

Verdicts compare times with them. They are not strict upper bounds: a kernel can be a little faster than the copy.

A GPU at its power limit lowers its clock, and with it the matmul rate. So the rate is measured in two power states: for
a moment after a pause, at the highest clock, and for seconds without one. Each has its clock.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch

from kernellab.machine.description import MatmulRate, MeasuredCeilings
from kernellab.timing.rates import BUFFER_BYTES, buffer_bytes, copy_gbps, matmul_tflops, sustained_matmul_tflops
from kernellab.timing.timer import BurstTimer

_MATMULS = {"cuda": (8192, ("bfloat16", "float16", "float32")), "cpu": (2048, ("float32",))}
_PAUSE_S = 0.5
_SUSTAINED_S = 2.0

Read = Callable[[], Mapping[str, object] | None]


def measure_ceilings(timer: BurstTimer, read: Read = lambda: None) -> MeasuredCeilings:
    """The ceilings of the timer's device. A copy counts bytes read plus bytes written; tf32 is off.

    `read` takes a reading of a GPU's telemetry.
    """
    device = timer.device
    size, dtypes = _MATMULS[device.type]
    copy = copy_gbps(timer, buffer_bytes(device, BUFFER_BYTES[device.type]))
    by_clock: dict[str, list[MatmulRate]] = {}
    tflops: dict[str, float] = {}
    for dtype in dtypes:
        if device.type == "cuda":
            time.sleep(_PAUSE_S)
        at_once, lasting = _Readings(read), _Readings(read)
        tflops[dtype] = matmul_tflops(timer, dtype, size, observe=at_once)
        if device.type == "cuda":
            sustained = sustained_matmul_tflops(timer, dtype, size, _SUSTAINED_S, observe=lasting)
            rates = (at_once.rate(tflops[dtype]), lasting.rate(sustained))
            if known := [rate for rate in rates if rate is not None]:
                by_clock[dtype] = known
    ceilings: MeasuredCeilings = {
        "copy_gbps": copy,
        "matmul_tflops": tflops,
        "threads": torch.get_num_threads() if device.type == "cpu" else None,
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%S"),
    }
    return {**ceilings, "matmul_by_clock": by_clock} if device.type == "cuda" else ceilings


class _Readings:
    """Readings of the telemetry while a rate is measured."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._clocks_mhz: list[float] = []
        self._powers_w: list[float] = []

    def __call__(self) -> None:
        reading = self._read() or {}
        for key, values in (("sm_mhz", self._clocks_mhz), ("power_w", self._powers_w)):
            value = reading.get(key)
            if isinstance(value, (int, float)) and value > 0:
                values.append(float(value))

    def rate(self, tflops: float) -> MatmulRate | None:
        """A rate at the clock of these readings; None where no clock was read."""
        if not self._clocks_mhz:
            return None
        power_w = statistics.median(self._powers_w) if self._powers_w else None
        return {"tflops": tflops, "clock_mhz": statistics.median(self._clocks_mhz), "power_w": power_w}
