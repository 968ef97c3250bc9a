"""A matmul in a dtype of the tensor cores is computed by ordinary multiply-adds.

    gain = time / (matmul operations / measured matmul rate / `REACHED`)

Without a time: the rate of the tensor cores over that of fp32 arithmetic, times the same share. `REACHED` is the share
of the library's rate that a plain kernel on tensor cores gets.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.gpumodel.device import TENSOR_NAMES
from kernellab.gpumodel.kernel import MULTIPLY_ADDS, count
from kernellab.gpumodel.subject import Subject

NEEDS = "a 16-bit matmul without tensor-core instructions"
GAIN = "time over 75 % of the measured matmul rate"

REACHED = 0.75
_THRESHOLD = 1.2


def examine(subject: Subject) -> Finding | None:
    device = subject.device
    if device is None or not subject.matmul_flops or any(k.on_tensor_cores for k in subject.kernels):
        return None
    rate = device.chip.tensor_per_clock.get(TENSOR_NAMES.get(subject.dtype, ""))
    multiply_adds = sum(count(k.instructions, MULTIPLY_ADDS) for k in subject.kernels if subject.computes_product(k))
    if rate is None or not multiply_adds:
        return None  # the dtype is none of theirs, or an operator does the matmul
    rate_ratio = rate / device.chip.fp32_per_clock
    gain = REACHED * (subject.headroom or rate_ratio)
    if gain < _THRESHOLD:
        return None
    return Finding(
        title=f"a {subject.dtype} matmul without tensor cores: {multiply_adds} multiply-adds in the code instead",
        gain=gain,
        do="multiply with tl.dot on 16-bit operands (Triton), mma or wgmma (CUDA C++), or call torch.matmul; "
        "accumulate in float32",
        confidence="computed",
        evidence=[
            Evidence("tensor-core instructions", 0, "", "machine code"),
            Evidence("tensor cores over fp32 arithmetic", rate_ratio, "times the rate", "GPU database"),
            Evidence("operations", subject.matmul_flops, "", "declaration"),
        ],
    )
