"""What this machine can do at most, measured: copy bandwidth and matmul rate.

A yardstick, not a law: a kernel can come out a little above the copy.
"""

from __future__ import annotations

import functools
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from kernellab.timing.sets import InputSets
from kernellab.timing.timers import Timer, timer_for
from kernellab.timing.work import Work

_MATMULS = {"cuda": (8192, ("bfloat16", "float16", "float32")), "cpu": (2048, ("float32",))}
_COPY_BYTES = {"cuda": 4 << 30, "cpu": 512 << 20}
_SAMPLES = 15


def measure(device: torch.device) -> dict[str, Any]:
    """`copy_gbps` counts bytes read plus bytes written; `matmul_tflops` per dtype, tf32 off."""
    timer = timer_for(device)
    numel = _COPY_BYTES[device.type] // 4
    if device.type == "cuda":
        numel = min(numel, torch.cuda.mem_get_info(device)[0] // 16)
    source = torch.randn(numel, device=device)
    target = torch.empty_like(source)
    copy_us = _median(timer, functools.partial(target.copy_, source))
    copy_gbps = 2 * source.numel() * 4 / copy_us / 1e3
    del source, target
    n, dtypes = _MATMULS[device.type]
    rates = {}
    for dtype in dtypes:
        a, b = (torch.randn(n, n, device=device).to(getattr(torch, dtype)) for _ in range(2))
        us = _median(timer, functools.partial(torch.mm, a, b))
        rates[dtype] = 2 * n**3 / us / 1e6
        del a, b
    return {
        "copy_gbps": copy_gbps,
        "matmul_tflops": rates,
        "threads": torch.get_num_threads() if device.type == "cpu" else None,
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%S"),
    }


def _median(timer: Timer, call: Callable[[], Any]) -> float:
    nothing = InputSets([{}])
    nothing.grow(1)
    work = Work("ceiling", nothing, lambda _: call, order=random.Random(0))
    samples = []
    for _ in range(_SAMPLES + 3):
        burst = timer.burst(work, windows=1, calls=1, lead=0, turn=False, after=lambda result, number: None)
        samples += burst.samples
    return statistics.median(samples[3:])
