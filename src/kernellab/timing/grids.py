"""Times grids of equal, compute-bound blocks on a GPU, which shows how many blocks run at once."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from typing import TypedDict

import torch

from kernellab.build.cuda import kernel
from kernellab.timing.documents import GridTime

_BLOCK_MS = 1.0  # long compared with a launch and with the start of a block
_REFERENCE_BLOCKS_PER_SM = 16  # the reference grid has no tail, so it gives the time of a block
_WARMUP_LAUNCHES = 20
_FIRST_STEPS = 1000

_BUSY = kernel("busy.cu", "busy")


class GridTimes(TypedDict):
    block_ms: float  # a block alone on an SM
    grids: list[GridTime]


def measure_grids(
    device: torch.device,
    grids: Sequence[int],
    threads: int,
    shared_bytes: int,
    *,
    rounds: int,
    between: Callable[[], object] = lambda: None,
) -> GridTimes:
    """Time each grid, in rounds of random order; `between` is called after each launch."""
    sms = torch.cuda.get_device_properties(device).multi_processor_count
    reference = _REFERENCE_BLOCKS_PER_SM * sms
    out = torch.zeros(1, device=device)

    def run_ms(grid: int, steps: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        start.record()
        _BUSY(grid, threads, out, steps, shared=shared_bytes)
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end))

    steps = _FIRST_STEPS
    run_ms(sms, steps)  # loads the kernel
    while (ms := run_ms(sms, steps)) < _BLOCK_MS / 2:  # a short run is mostly launch overhead, so increase stepwise
        steps = int(steps * min(10.0, 1.1 * _BLOCK_MS / ms))
    for _ in range(_WARMUP_LAUNCHES):
        run_ms(reference, steps)
    order = random.Random(0)
    timed = list(dict.fromkeys([*grids, reference]))
    times_ms: dict[int, list[float]] = {grid: [] for grid in timed}
    for _ in range(rounds):
        for grid in order.sample(timed, len(timed)):
            times_ms[grid].append(run_ms(grid, steps))
            between()
    return {
        "block_ms": statistics.median(times_ms[reference]) / _REFERENCE_BLOCKS_PER_SM,
        "grids": [{"blocks": grid, "ms": statistics.median(times_ms[grid])} for grid in grids],
    }
