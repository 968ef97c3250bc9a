"""Tensor cores multiply 16-bit operands as a wider type, at a fraction of the rate.

A matmul of operands that were cast to float32 runs in tf32, which takes twice as long as bf16 and moves twice the bytes
through shared memory.

    gain = predicted time / predicted time at the rate of the op's own dtype

Without tensor cores: see `no_tensor_cores`.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.findings.gain import correct_by_headroom
from kernellab.gpumodel.device import TENSOR_NAMES
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import product_rate, slowest_kernel

NEEDS = "a 16-bit matmul that tensor cores compute in tf32"
GAIN = "the model at the rate of its own dtype"

_THRESHOLD = 1.1


def examine(subject: Subject) -> Finding | None:
    slowest = slowest_kernel(subject)
    device = subject.device
    if slowest is None or device is None or not subject.matmul_flops:
        return None
    kernel, estimate = slowest
    best_rate = device.chip.tensor_per_clock.get(TENSOR_NAMES.get(subject.dtype, ""))
    rate = product_rate(device, kernel)
    if best_rate is None or not kernel.on_tensor_cores or not 0 < rate < best_rate:
        return None
    at_best_us = estimate.time_us_with(matmul=estimate.matmul * rate / best_rate)
    gain = correct_by_headroom(estimate.time_us / at_best_us, subject.headroom)
    if gain < _THRESHOLD:
        return None
    kinds = " and ".join(kernel.products)
    return Finding(
        title=f"a {subject.dtype} matmul computed in {kinds}: tensor cores are {best_rate / rate:.3g} times as fast in "
        f"{TENSOR_NAMES[subject.dtype]}",
        gain=gain,
        do="pass the operands to tl.dot, mma or wgmma as they were loaded, without a cast to float32; accumulate in "
        "float32",
        confidence="computed",
        evidence=[
            Evidence("tensor cores multiply", kinds, "", "machine code"),
            Evidence("rate of the op's dtype over it", best_rate / rate, "times", "GPU database"),
            Evidence("operations", subject.matmul_flops, "", "declaration"),
        ],
    )
