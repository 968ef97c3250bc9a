"""No tensor cores: a product in a dtype they take, computed by ordinary multiply-adds.

    gain = time / (matmul operations / measured matmul rate / `REACHED`)

Without a time: the rate of the tensor cores over that of fp32 arithmetic, times the same share. `REACHED` is what a
plain kernel on tensor cores gets of the library's rate; the library itself gets all of it.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import TENSOR_NAMES

REACHED = 0.75
_LEAST = 1.2


def look(subject: Subject) -> Finding | None:
    device, cost = subject.device, subject.cost
    if device is None or not cost or not cost["flops"].get("matmul") or not subject.kernels:
        return None
    rate = device.chip.tensor_per_clock.get(TENSOR_NAMES.get(subject.dtype, ""))
    if rate is None or any(k.on_tensor_cores for k in subject.kernels):
        return None
    own = [k for k in subject.kernels if subject.multiplies(k)]
    multiply_adds = sum(k.instructions.get(name, 0) for k in own for name in ("fp32", "fp16"))
    if not multiply_adds:
        return None  # the product is somebody else's kernel
    ratio = rate / device.chip.fp32_per_clock
    gain = REACHED * (subject.headroom or ratio)
    if gain < _LEAST:
        return None
    return Finding(
        rule="no-tensor-cores",
        title=f"a {subject.dtype} product without tensor cores: {multiply_adds} multiply-adds in the code instead",
        gain=gain,
        do="multiply with tl.dot on operands of 16 bits (Triton), mma or wgmma (CUDA C++), or call torch.matmul; "
        "accumulate in float32",
        sure="computed",
        evidence=[
            Evidence("tensor-core instructions", 0, "", "machine code"),
            Evidence("tensor cores over fp32 arithmetic", ratio, "times the rate", "GPU database"),
            Evidence("operations", cost["flops"]["matmul"], "", "declaration"),
        ],
    )
