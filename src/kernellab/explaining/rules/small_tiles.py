"""The blocks of a matmul fetch the same operands many times, from L2 at best.

A block that computes a tile of m × n results fetches m + n values for every m·n multiply-adds. The code shows how much
one iteration fetches and multiplies, and the bytes of the whole matmul follow from its operations:

    fetched = operations × bytes loaded per iteration / operations per iteration
    gain = max(fetched / L2's bandwidth, predicted time) / max(the same with tiles of 128 × 256, predicted time)

Narrow operands allow no such tiles: at least the fewest bytes of the op are fetched.

L2's bandwidth is that of `gpumodel/fusion.py`. L1 may serve a part where operands go through registers. How much
TMA copies move is not in the code: such kernels are not reported.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.findings.gain import gain_above
from kernellab.gpumodel.device import TENSOR_NAMES
from kernellab.gpumodel.fusion import L2_OVER_MEMORY
from kernellab.gpumodel.kernel import GLOBAL_LOADS, Kernel, count
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import slowest_kernel

NEEDS = "bytes and operations of one iteration of a matmul's loop"
GAIN = "what it fetches through L2 over what tiles of 128 × 256 would"

_THRESHOLD = 1.2
_LARGE = (128, 256)
# Two bytes per operand, two operations per multiply-add.
_LARGE_BYTES_PER_OPERATION = 2 * sum(1 / side for side in _LARGE) / 2


def examine(subject: Subject) -> Finding | None:
    slowest = slowest_kernel(subject)
    device, operations = subject.device, subject.matmul_flops
    if slowest is None or device is None or subject.dtype not in TENSOR_NAMES:
        return None
    kernel, estimate = slowest
    per_operation = _bytes_per_operation(kernel)
    if not operations or not per_operation:
        return None
    l2_bytes_per_us = L2_OVER_MEMORY * device.gbps * 1e3
    now_us = max(estimate.time_us, operations * per_operation / l2_bytes_per_us)
    large_bytes = max(operations * _LARGE_BYTES_PER_OPERATION, subject.fewest_bytes)
    gain = gain_above(_THRESHOLD, now_us / max(estimate.time_us, large_bytes / l2_bytes_per_us), subject.headroom)
    if gain is None:
        return None
    return Finding(
        title=f"small tiles: {per_operation / _LARGE_BYTES_PER_OPERATION:.3g} times the bytes that tiles of "
        f"{_LARGE[0]} × {_LARGE[1]} would fetch, {operations * per_operation / 1e9:.3g} GB through L2",
        gain=gain,
        do="let a block compute a larger tile (128 × 128 or more, with the warps and the registers this needs), and "
        "fetch it through shared memory",
        confidence="likely",
        evidence=[
            Evidence("fetched per operation", per_operation, "bytes", "machine code"),
            Evidence("with large tiles", _LARGE_BYTES_PER_OPERATION, "bytes", "model"),
            Evidence("operations", operations, "", "declaration"),
        ],
    )


def _bytes_per_operation(kernel: Kernel) -> float:
    """In one iteration of the loop that loads; 0 where it is not known."""
    code = kernel.loop or {}
    operations = kernel.product_flops * count(code, ("tensor_mma", "tensor_wgmma"))
    loaded = kernel.load_bytes * count(code, GLOBAL_LOADS)
    return loaded / operations if operations and not code.get("bulk_copy") else 0.0
