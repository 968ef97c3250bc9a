"""Upper bounds of a GPU by the vendor's numbers: not measured, and never below the true rate.

A time that would exceed them is impossible. An unknown bound is None, and then no time is called impossible.
"""

from __future__ import annotations

from kernellab.base.errors import UserError
from kernellab.machine.chips import chip
from kernellab.machine.description import Peaks, PeakTflops
from kernellab.machine.nvml import Nvml


def peaks(device_id: str, sm_count: int, capability: tuple[int, int], l2_bytes: int) -> Peaks | None:
    """The peaks of the GPU whose UUID is `device_id`; None for the CPU and without NVML.

    The other arguments are what torch knows and NVML does not.
    """
    if device_id == "cpu":
        return None
    gpu = Nvml(device_id)
    if not gpu.available:
        return None
    return {
        "pin_gbps": _pin_gbps(gpu),
        "l2_bytes": int(l2_bytes),
        "tflops": _tflops(gpu, sm_count, capability),
    }


def _pin_gbps(gpu: Nvml) -> float | None:
    """Clock × bus width × 2.

    NVML states the clock of every kind of memory as if it were double data rate, even if more bits pass per cycle:
    RTX 3090, GDDR6X, 9751 MHz × 384 bit × 2 = 936 GB/s; T4, GDDR6, 5001 × 256 × 2 = 320; A100, HBM2e,
    1593 × 5120 × 2 = 2039; H200, HBM3e, 3201 × 6144 × 2 = 4917, in the data sheet 4800
    (forums.developer.nvidia.com/t/198730).
    """
    clock, width = _highest_mhz(gpu, "NVML_CLOCK_MEM"), gpu.number("nvmlDeviceGetMemoryBusWidth")
    return clock * width * 2 / 8 / 1e3 if clock and width else None


def _tflops(gpu: Nvml, sm_count: int, capability: tuple[int, int]) -> PeakTflops | None:
    clock = _highest_mhz(gpu, "NVML_CLOCK_SM")
    try:
        rates = chip("{}.{}".format(*capability[:2]))
    except UserError:
        return None
    if clock is None:
        return None
    per_clock = (rates.fp32_per_clock, rates.tensor_per_clock["fp16"])
    fp32, half = (sm_count * clock * operations / 1e6 for operations in per_clock)
    # A float32 product takes one tf32 product, at half the 16-bit rate, or at least two 16-bit products.
    return {"fp32": fp32, "matmul": {"bfloat16": half, "float16": half, "float32": half / 2}}


def _highest_mhz(gpu: Nvml, clock: str) -> float | None:
    """The highest clock that the driver states, or the present one if the GPU is overclocked beyond it."""
    clocks = [gpu.number(name, clock) for name in ("nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetClockInfo")]
    return max((mhz for mhz in clocks if mhz), default=None)
