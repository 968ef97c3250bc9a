"""Grids of equal, compute-bound blocks, timed on a GPU: how a grid really fills it."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernellab.build.cuda import kernel

_BLOCK_MS = 1.0  # long against what a launch costs, and what starting a block costs
_REFERENCE = 16  # blocks per SM of the grid that says what a block takes: it has no tail
_WARM_UPS = 20

_BUSY = kernel("busy.cu", "busy")


def measure(
    device: torch.device,
    grids: Sequence[int],
    threads: int,
    shared_bytes: int,
    *,
    rounds: int,
    between: Callable[[], Any] = lambda: None,
) -> dict[str, Any]:
    """`grids`: each with its `ms`, a median over rounds in random order; `block_ms`: a block alone on an SM."""
    sms = torch.cuda.get_device_properties(device).multi_processor_count
    reference = _REFERENCE * sms
    out = torch.zeros(1, device=device)

    def run(grid: int, steps: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        start.record()
        _BUSY(grid, threads, out, steps, shared=shared_bytes)
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end))

    steps = 1000
    run(sms, steps)  # loads the kernel
    while (took_ms := run(sms, steps)) < _BLOCK_MS / 2:  # short ones are mostly launch: closer step by step
        steps = int(steps * min(10.0, 1.1 * _BLOCK_MS / took_ms))
    for _ in range(_WARM_UPS):
        run(reference, steps)
    order = random.Random(0)
    asked = list(dict.fromkeys([*grids, reference]))
    times: dict[int, list[float]] = {grid: [] for grid in asked}
    for _ in range(rounds):
        for grid in order.sample(asked, len(asked)):
            times[grid].append(run(grid, steps))
            between()
    return {
        "block_ms": statistics.median(times[reference]) / _REFERENCE,
        "grids": [{"blocks": grid, "ms": statistics.median(times[grid])} for grid in grids],
    }
