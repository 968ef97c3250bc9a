"""What the vendor's numbers allow a GPU at most: no measurement, and no rate below the true one.

They serve to say that a time is impossible. Where something is unknown it is None, and nobody is accused.
"""

from __future__ import annotations

from typing import Any

from kernellab.machine.nvml import Nvml

# Floating-point operations per multiprocessor and clock (a multiply-add is two), by compute capability:
# ordinary float32, and dense 16-bit products on the tensor cores at their best accumulation.
#
# float32: results per clock in the CUDA programming guide's table of arithmetic throughput, doubled.
# 16-bit: from the vendor's papers, each checked against a product: rate = SMs × boost clock × this.
_PER_CLOCK = {
    (7, 0): (128, 1024),  # V100: 80 × 1.53 GHz, 125 TFLOPS
    (7, 5): (128, 1024),  # T4: 40 × 1.59 GHz, 65
    (8, 0): (128, 2048),  # A100: 108 × 1.41 GHz, 312
    (8, 6): (256, 1024),  # A40: 84 × 1.74 GHz, 150; GeForce reaches it with 16-bit accumulation only
    (8, 7): (256, 2048),  # Orin: 16 × 1.3 GHz, 42.5 (85 int8 TOPS)
    (8, 9): (256, 1024),  # L40S: 142 × 2.52 GHz, 366; RTX 4090 with 16-bit accumulation
    (9, 0): (256, 4096),  # H100 and H200: 132 × 1.83 GHz, 989
    (10, 0): (256, 8192),  # B200: 148 × 1.86 GHz, 2250
    (10, 3): (256, 8192),  # B300: as B200; its extra is in 4-bit products
    (12, 0): (256, 1024),  # RTX PRO 6000: 188 × 2.62 GHz, 504; RTX 5090 with 16-bit accumulation
    (12, 1): (256, 1024),  # GB10: 48 × 2.5 GHz, 125
}


def peaks(device_id: str, sm_count: int, capability: tuple[int, int], l2_bytes: int) -> dict[str, Any] | None:
    """`pin_gbps`, `l2_bytes` and `tflops` of a GPU, `device_id` its UUID; None on the CPU and without NVML.

    Multiprocessors, capability and cache come from the caller: torch knows them, NVML does not.
    """
    if device_id == "cpu":
        return None
    gpu = Nvml(device_id)
    if not gpu.found:
        return None
    return {
        "pin_gbps": _pin_gbps(gpu),
        "l2_bytes": int(l2_bytes),
        "tflops": _tflops(gpu, sm_count, (capability[0], capability[1])),
    }


def _pin_gbps(gpu: Nvml) -> float | None:
    """Clock × bus width × 2.

    NVML states the clock of every kind of memory as if it were double data rate, also where more bits pass per
    cycle: RTX 3090, GDDR6X, 9751 MHz × 384 bit × 2 = 936 GB/s; T4, GDDR6, 5001 × 256 × 2 = 320; A100, HBM2e,
    1593 × 5120 × 2 = 2039; H200, HBM3e, 3201 × 6144 × 2 = 4917 where the data sheet says 4800
    (forums.developer.nvidia.com/t/198730).
    """
    clock, width = _highest_mhz(gpu, "NVML_CLOCK_MEM"), gpu.number("nvmlDeviceGetMemoryBusWidth")
    return clock * width * 2 / 8 / 1e3 if clock and width else None


def _tflops(gpu: Nvml, sm_count: int, capability: tuple[int, int]) -> dict[str, Any] | None:
    clock = _highest_mhz(gpu, "NVML_CLOCK_SM")
    if clock is None or capability not in _PER_CLOCK:
        return None
    fp32, half = (sm_count * clock * per / 1e6 for per in _PER_CLOCK[capability])
    # A float32 product takes one tf32 product, at half the 16-bit rate, or at least two 16-bit ones.
    return {"fp32": fp32, "matmul": {"bfloat16": half, "float16": half, "float32": half / 2}}


def _highest_mhz(gpu: Nvml, which: str) -> float | None:
    """The highest clock, or the present one where somebody has overclocked beyond it."""
    clocks = [gpu.number(name, which) for name in ("nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetClockInfo")]
    return max((clock for clock in clocks if clock), default=None)
