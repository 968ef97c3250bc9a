"""What a device's memory, its last cache and its matmul units deliver, measured one by one.

`ceilings` takes from here what verdicts are measured against; `all_rates` is the whole list, for `klab device`.
"""

from __future__ import annotations

import contextlib
import functools
import random
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch

from kernellab.base.errors import UserError
from kernellab.build.cuda import kernel
from kernellab.timing.cache import last_level_cache_bytes
from kernellab.timing.input_sets import InputSets
from kernellab.timing.timers import Timer, timer_for
from kernellab.timing.work import Work

SAMPLES = 15
BUFFER_BYTES = {"cuda": 4 << 30, "cpu": 512 << 20}
_QUICK_BYTES = {"cuda": 1 << 30, "cpu": 128 << 20}
_QUICK_SAMPLES = 3
_WARM_UPS = 3
# Products of this size and these dtypes; `tf32` is float32 with its products rounded to 10 bits.
_MATMULS = {
    "cuda": (8192, ("bfloat16", "float16", "tf32", "float32", "float64")),
    "cpu": (1024, ("float32", "float64", "bfloat16")),
}
_FLOAT64_SIZE = 4096  # a GPU without units for it would take seconds
_CACHE_PASSES = {"cuda": 400, "cpu": 40}  # so that the first, which finds the cache empty, does not count

_READ = kernel("reading.cu", "read_all")
_IN_FLIGHT = 4  # as in reading.cu

Rate = dict[str, Any]


def all_rates(device: torch.device, *, quick: bool = False, between: Callable[[], Any] = lambda: None) -> list[Rate]:
    """Each with `name`, `value` (None: not measured here), `unit` and `how`; `between` is called before each."""
    size = room(device, (_QUICK_BYTES if quick else BUFFER_BYTES)[device.type])
    samples = _QUICK_SAMPLES if quick else SAMPLES
    timer = timer_for(device)
    cache_bytes = _cache_bytes(device)
    cache = "L2" if device.type == "cuda" else "last-level cache"
    mb = f"{size >> 20} MB"
    found: list[Rate] = []

    def add(name: str, unit: str, how: str, measure: Callable[[], float | None]) -> None:
        between()
        found.append({"name": name, "value": measure(), "unit": unit, "how": how})

    add("copy", "GB/s", f"{mb}, bytes read and written", lambda: copy_gbps(timer, device, size, samples))
    add("read", "GB/s", mb, lambda: read_gbps(timer, device, size, samples))
    add("write", "GB/s", mb, lambda: write_gbps(timer, device, size, samples))
    passes = _CACHE_PASSES[device.type]
    add(
        f"{cache} read",
        "GB/s",
        f"{cache_bytes >> 20} MB, {passes} times over",
        lambda: read_gbps(timer, device, cache_bytes, samples, passes=passes),
    )
    most, dtypes = _MATMULS[device.type]
    for dtype in dtypes:
        n = min(most, _FLOAT64_SIZE) if dtype == "float64" else most
        add(
            f"matmul {dtype}",
            "TFLOP/s",
            f"{n}×{n}×{n}, random numbers",
            functools.partial(matmul_tflops, timer, device, dtype, n, samples),
        )
    between()
    return found


def copy_gbps(timer: Timer, device: torch.device, size_bytes: int, samples: int = SAMPLES) -> float:
    """Bytes read plus bytes written."""
    source = torch.randn(size_bytes // 4, device=device)
    target = torch.empty_like(source)
    us = median_us(timer, functools.partial(target.copy_, source), samples)
    return 2 * source.numel() * 4 / us / 1e3


def write_gbps(timer: Timer, device: torch.device, size_bytes: int, samples: int = SAMPLES) -> float:
    target = torch.empty(size_bytes // 4, device=device)
    return target.numel() * 4 / median_us(timer, functools.partial(target.fill_, 1.5), samples) / 1e3


def read_gbps(
    timer: Timer, device: torch.device, size_bytes: int, samples: int = SAMPLES, *, passes: int = 1
) -> float | None:
    """The whole buffer, `passes` times in one call; None on a GPU where no CUDA C++ can be built."""
    data = torch.randn(size_bytes // 16 * 4, device=device)
    if device.type == "cpu":
        us = median_us(timer, functools.partial(_sums, data, passes), samples)
        return data.numel() * 4 * passes / us / 1e3
    try:
        call, read_bytes = _reader(data, passes)
    except UserError:
        return None
    return read_bytes / median_us(timer, call, samples) / 1e3


def _sums(data: torch.Tensor, passes: int) -> torch.Tensor:
    return functools.reduce(torch.add, (data.sum() for _ in range(passes)))


def _reader(data: torch.Tensor, passes: int) -> tuple[Callable[[], None], int]:
    """A launch that reads the buffer so often, or a little more, and how many bytes it reads."""
    facts = torch.cuda.get_device_properties(data.device)
    count, block = data.numel() // 4, 512
    grid = facts.multi_processor_count * (facts.max_threads_per_multi_processor // block)
    grid = min(grid, count // block)
    loads = -(-count * passes // (grid * block * _IN_FLIGHT)) * _IN_FLIGHT
    out = torch.zeros(1, device=data.device)
    call = functools.partial(_READ, grid, block, data, count, loads, out)
    call()  # builds and loads it, which must not happen in a timed window
    torch.cuda.synchronize(data.device)
    return call, loads * grid * block * 16


def matmul_tflops(timer: Timer, device: torch.device, dtype: str, n: int, samples: int = SAMPLES) -> float:
    """An n×n×n product of random numbers; float32 without tf32 unless that is the dtype."""
    kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
    a, b = (torch.randn(n, n, device=device).to(kind) for _ in range(2))
    with _tf32() if dtype == "tf32" else contextlib.nullcontext():
        us = median_us(timer, functools.partial(torch.mm, a, b), samples)
    return 2 * n**3 / us / 1e6


@contextlib.contextmanager
def _tf32() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def median_us(timer: Timer, call: Callable[[], Any], samples: int = SAMPLES) -> float:
    nothing = InputSets([{}])
    nothing.grow(1)
    work = Work("ceiling", nothing, lambda _: call, order=random.Random(0))
    times = []
    for _ in range(samples + _WARM_UPS):
        burst = timer.burst(work, windows=1, calls=1, lead=0, turn=False, after=lambda result, number: None)
        times += burst.samples
    return statistics.median(times[_WARM_UPS:])


def room(device: torch.device, size_bytes: int) -> int:
    """So much, or what leaves most of a GPU's memory to others."""
    return min(size_bytes, torch.cuda.mem_get_info(device)[0] // 4) if device.type == "cuda" else size_bytes


def _cache_bytes(device: torch.device) -> int:
    """A quarter of the cache stays there: large GPUs keep a copy in either half of L2, and a CPU's has other users."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size) // 4
    return last_level_cache_bytes() // 4
