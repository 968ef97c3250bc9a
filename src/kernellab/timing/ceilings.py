"""What this machine can do at most, measured: copy bandwidth and matmul rate.

A yardstick, not a law: a kernel can come out a little above the copy.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from kernellab.timing.rates import BUFFER_BYTES, copy_gbps, matmul_tflops, room
from kernellab.timing.timers import timer_for

_MATMULS = {"cuda": (8192, ("bfloat16", "float16", "float32")), "cpu": (2048, ("float32",))}


def measure(device: torch.device) -> dict[str, Any]:
    """`copy_gbps` counts bytes read plus bytes written; `matmul_tflops` per dtype, tf32 off."""
    timer = timer_for(device)
    n, dtypes = _MATMULS[device.type]
    return {
        "copy_gbps": copy_gbps(timer, device, room(device, BUFFER_BYTES[device.type])),
        "matmul_tflops": {dtype: matmul_tflops(timer, device, dtype, n) for dtype in dtypes},
        "threads": torch.get_num_threads() if device.type == "cpu" else None,
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%S"),
    }
