"""Measures the machine's ceilings: copy bandwidth and matmul rate.

Verdicts compare times with them. They are not strict upper bounds: a kernel can be a little faster than the copy.
"""

from __future__ import annotations

import time

import torch

from kernellab.machine.description import MeasuredCeilings
from kernellab.timing.rates import BUFFER_BYTES, buffer_bytes, copy_gbps, matmul_tflops
from kernellab.timing.timer import BurstTimer

_MATMULS = {"cuda": (8192, ("bfloat16", "float16", "float32")), "cpu": (2048, ("float32",))}


def measure_ceilings(timer: BurstTimer) -> MeasuredCeilings:
    """The ceilings of the timer's device. A copy counts bytes read plus bytes written; tf32 is off."""
    device = timer.device
    size, dtypes = _MATMULS[device.type]
    return {
        "copy_gbps": copy_gbps(timer, buffer_bytes(device, BUFFER_BYTES[device.type])),
        "matmul_tflops": {dtype: matmul_tflops(timer, dtype, size) for dtype in dtypes},
        "threads": torch.get_num_threads() if device.type == "cpu" else None,
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%S"),
    }
