"""Measures bandwidths and matmul rates of a device, one by one.

`timing.ceilings` uses two of them for verdicts; `measure_rates` is the whole list, for `klab device --measure`.
"""

from __future__ import annotations

import contextlib
import functools
import random
import statistics
from collections.abc import Callable, Iterator
from time import monotonic

import torch

from kernellab.base.errors import UserError
from kernellab.build.cuda import kernel
from kernellab.timing.cache import cache_bytes
from kernellab.timing.documents import Rate
from kernellab.timing.input_sets import InputSets
from kernellab.timing.timed_impl import Call, TimedImpl
from kernellab.timing.timer import BurstSpec, BurstTimer

SAMPLES = 15
BUFFER_BYTES = {"cuda": 4 << 30, "cpu": 512 << 20}
_QUICK_BYTES = {"cuda": 1 << 30, "cpu": 128 << 20}
_QUICK_SAMPLES = 3
_WARMUP_SAMPLES = 3
_SUSTAINED_BURST_US = 20_000.0  # of products in a row, between which the host waits for the GPU
# Matrix size and dtypes; `tf32` is float32 with its products rounded to 10 bits.
_MATMULS = {
    "cuda": (8192, ("bfloat16", "float16", "tf32", "float32", "float64")),
    "cpu": (1024, ("float32", "float64", "bfloat16")),
}
_FLOAT64_SIZE = 4096  # a GPU without float64 units would take seconds for more
_CACHE_PASSES = {"cuda": 400, "cpu": 40}  # enough that the first pass, over an empty cache, hardly counts
# A quarter of the cache's size certainly stays in it: large GPUs keep a copy in each half of L2, and a CPU's cache has
# other users.
_CACHE_SHARE = 4

_READ = kernel("reading.cu", "read_all")
_LOADS_IN_FLIGHT = 4  # as in reading.cu
_VECTOR_BYTES = 16  # per load


def measure_rates(
    timer: BurstTimer, *, quick: bool = False, between: Callable[[], object] = lambda: None
) -> list[Rate]:
    """All rates of the timer's device; `between` is called before and after each."""
    device = timer.device
    size = buffer_bytes(device, (_QUICK_BYTES if quick else BUFFER_BYTES)[device.type])
    samples = _QUICK_SAMPLES if quick else SAMPLES
    cached_bytes = cache_bytes(device) // _CACHE_SHARE
    cache = "L2" if device.type == "cuda" else "last-level cache"
    mb = f"{size >> 20} MB"
    rates: list[Rate] = []

    def add(name: str, unit: str, how: str, measure: Callable[[], float | None]) -> None:
        between()
        rates.append({"name": name, "value": measure(), "unit": unit, "how": how})

    add("copy", "GB/s", f"{mb}, bytes read and written", lambda: copy_gbps(timer, size, samples))
    add("read", "GB/s", mb, lambda: read_gbps(timer, size, samples))
    add("write", "GB/s", mb, lambda: write_gbps(timer, size, samples))
    passes = _CACHE_PASSES[device.type]
    add(
        f"{cache} read",
        "GB/s",
        f"{cached_bytes >> 20} MB, {passes} times over",
        lambda: read_gbps(timer, cached_bytes, samples, passes=passes),
    )
    largest, dtypes = _MATMULS[device.type]
    for dtype in dtypes:
        n = min(largest, _FLOAT64_SIZE) if dtype == "float64" else largest
        add(
            f"matmul {dtype}",
            "TFLOP/s",
            f"{n}×{n}×{n}, random numbers",
            functools.partial(matmul_tflops, timer, dtype, n, samples),
        )
    between()
    return rates


def copy_gbps(timer: BurstTimer, size_bytes: int, samples: int = SAMPLES) -> float:
    """Bytes read plus bytes written."""
    source = torch.randn(size_bytes // 4, device=timer.device)
    target = torch.empty_like(source)
    us = _median_us(timer, functools.partial(target.copy_, source), samples)
    return 2 * source.numel() * 4 / us / 1e3


def write_gbps(timer: BurstTimer, size_bytes: int, samples: int = SAMPLES) -> float:
    target = torch.empty(size_bytes // 4, device=timer.device)
    return target.numel() * 4 / _median_us(timer, functools.partial(target.fill_, 1.5), samples) / 1e3


def read_gbps(timer: BurstTimer, size_bytes: int, samples: int = SAMPLES, *, passes: int = 1) -> float | None:
    """Read the whole buffer, `passes` times in one call; None on a GPU where CUDA C++ cannot be built."""
    data = torch.randn(size_bytes // _VECTOR_BYTES * 4, device=timer.device)
    if timer.device.type == "cpu":
        us = _median_us(timer, functools.partial(_sum_repeatedly, data, passes), samples)
        return data.numel() * 4 * passes / us / 1e3
    try:
        call, read_bytes = _prepare_read(data, passes)
    except UserError:
        return None
    return read_bytes / _median_us(timer, call, samples) / 1e3


def _sum_repeatedly(data: torch.Tensor, passes: int) -> torch.Tensor:
    return functools.reduce(torch.add, (data.sum() for _ in range(passes)))


def _prepare_read(data: torch.Tensor, passes: int) -> tuple[Call, int]:
    """A launch that reads the buffer at least `passes` times, and the number of bytes it reads."""
    properties = torch.cuda.get_device_properties(data.device)
    vectors, block = data.numel() // 4, 512
    grid = properties.multi_processor_count * (properties.max_threads_per_multi_processor // block)
    grid = min(grid, vectors // block)
    loads = -(-vectors * passes // (grid * block * _LOADS_IN_FLIGHT)) * _LOADS_IN_FLIGHT
    out = torch.zeros(1, device=data.device)
    call = functools.partial(_READ, grid, block, data, vectors, loads, out)
    call()  # builds and loads the kernel, which must not happen in a timed window
    torch.cuda.synchronize(data.device)
    return call, loads * grid * block * _VECTOR_BYTES


def matmul_tflops(
    timer: BurstTimer, dtype: str, n: int, samples: int = SAMPLES, *, observe: Callable[[], None] = lambda: None
) -> float:
    """An n×n×n product of random numbers; float32 without tf32 unless `dtype` is "tf32".

    `observe` is called while each of the samples is computed.
    """
    with _tf32() if dtype == "tf32" else contextlib.nullcontext():
        us = _median_us(timer, _random_product(timer, dtype, n), samples, observe)
    return 2 * n**3 / us / 1e6


def sustained_matmul_tflops(
    timer: BurstTimer, dtype: str, n: int, seconds: float, *, observe: Callable[[], None] = lambda: None
) -> float:
    """The same products in a row: the rate in the second half of this time, when power and clock have settled.

    `observe` is called in that half only.
    """
    impl = _as_impl(_random_product(timer, dtype, n))
    once_us = timer.burst(impl, BurstSpec(calls=1)).samples_us[0]
    calls = max(1, round(_SUSTAINED_BURST_US / once_us))
    began = monotonic()
    while monotonic() - began < seconds / 2:
        timer.burst(impl, BurstSpec(calls=calls))
    times_us: list[float] = []
    while monotonic() - began < seconds or not times_us:
        times_us += timer.burst(impl, BurstSpec(calls=calls, verify=lambda result, number: observe())).samples_us
    return 2 * n**3 / statistics.median(times_us) / 1e6


def _random_product(timer: BurstTimer, dtype: str, n: int) -> Call:
    torch_dtype = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
    a, b = (torch.randn(n, n, device=timer.device).to(torch_dtype) for _ in range(2))
    return functools.partial(torch.mm, a, b)


@contextlib.contextmanager
def _tf32() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _median_us(timer: BurstTimer, call: Call, samples: int, observe: Callable[[], None] = lambda: None) -> float:
    impl = _as_impl(call)
    for _ in range(_WARMUP_SAMPLES):
        timer.burst(impl, BurstSpec(calls=1))
    spec = BurstSpec(calls=1, verify=lambda result, number: observe())
    return statistics.median(us for _ in range(samples) for us in timer.burst(impl, spec).samples_us)


def _as_impl(call: Call) -> TimedImpl:
    no_inputs = InputSets([{}])
    no_inputs.grow_to(1)
    return TimedImpl("rate", no_inputs, lambda _: call, order=random.Random(0))


def buffer_bytes(device: torch.device, wanted: int) -> int:
    """`wanted`, or a quarter of a GPU's free memory if that is less."""
    return min(wanted, torch.cuda.mem_get_info(device)[0] // 4) if device.type == "cuda" else wanted
