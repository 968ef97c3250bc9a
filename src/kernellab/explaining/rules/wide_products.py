"""Wide products: operands of 16 bits multiplied by tensor cores as something wider, at a fraction of the rate.

A product of operands cast to float32 is done in tf32, which takes twice as long as in bf16 and moves twice the bytes
through shared memory.

    gain = time predicted now / time predicted at the rate of the op's own dtype

Without tensor cores: see `no_tensor_cores`.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, settled
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import TENSOR_NAMES, main_kernel, product_rate

_LEAST = 1.1


def look(subject: Subject) -> Finding | None:
    found = main_kernel(subject)
    device, cost = subject.device, subject.cost
    if found is None or device is None or not cost or not cost["flops"].get("matmul"):
        return None
    kernel, priced = found
    best = device.chip.tensor_per_clock.get(TENSOR_NAMES.get(subject.dtype, ""))
    rate = product_rate(device, kernel)
    if best is None or not kernel.on_tensor_cores or not 0 < rate < best:
        return None
    gain = settled(priced.time_us / priced.without(matmul=priced.matmul * rate / best), subject.headroom)
    if gain < _LEAST:
        return None
    kinds = " and ".join(kernel.products)
    return Finding(
        rule="wide-products",
        title=f"a {subject.dtype} product computed in {kinds}: tensor cores do {best / rate:.3g} times as much in "
        f"{TENSOR_NAMES[subject.dtype]}",
        gain=gain,
        do="give tl.dot, mma or wgmma the operands as they were loaded, without a cast to float32; accumulate in "
        "float32",
        sure="computed",
        evidence=[
            Evidence("tensor cores multiply", kinds, "", "machine code"),
            Evidence("rate of the op's dtype over it", best / rate, "times", "GPU database"),
            Evidence("operations", cost["flops"]["matmul"], "", "declaration"),
        ],
    )
