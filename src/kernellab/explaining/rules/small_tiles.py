"""Small tiles: a product whose blocks fetch the same operands again and again, from L2 at best.

A block that computes a tile of m × n results fetches m + n values for every m·n multiply-adds. What a loop fetches and
multiplies in one turn is in the code, so that the bytes of the whole product follow from its operations:

    fetched = operations × bytes a turn loads / operations a turn does
    gain = max(fetched / L2's bandwidth, time predicted) / max(the same with tiles of 128 × 256, time predicted)

Operands that are narrow themselves allow no such tiles: the fewest bytes of the op are fetched in any case.

L2's bandwidth is taken as in `fusion`. L1 may serve some of it where operands go through registers, and copies by TMA
do not say how much they move: nothing is said of those.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, gained
from kernellab.gpumodel.fusion import L2_OVER_MEMORY
from kernellab.gpumodel.subject import Kernel, Subject
from kernellab.gpumodel.time_model import TENSOR_NAMES, main_kernel

_LEAST = 1.2
_LARGE = (128, 256)


def look(subject: Subject) -> Finding | None:
    found = main_kernel(subject)
    device, cost = subject.device, subject.cost
    if found is None or device is None or not cost or subject.dtype not in TENSOR_NAMES:
        return None
    kernel, priced = found
    operations = cost["flops"].get("matmul", 0)
    per_operation = _bytes_per_operation(kernel)
    if not operations or not per_operation:
        return None
    at_best = 2 * sum(1 / side for side in _LARGE) / 2  # two bytes each, two operations a multiply-add
    per_us = L2_OVER_MEMORY * device.gbps * 1e3
    now = max(priced.time_us, operations * per_operation / per_us)
    estimate = now / max(priced.time_us, max(operations * at_best, subject.fewest_bytes) / per_us)
    gain = gained(estimate, subject.headroom, _LEAST)
    if gain is None:
        return None
    return Finding(
        rule="small-tiles",
        title=f"{per_operation / at_best:.3g} times the bytes that tiles of {_LARGE[0]} × {_LARGE[1]} would fetch: "
        f"{operations * per_operation / 1e9:.3g} GB through L2",
        gain=gain,
        do="let a block compute a larger tile (128 × 128 or more, with the warps and the registers it takes), and "
        "fetch it through shared memory",
        sure="likely",
        evidence=[
            Evidence("fetched per operation", per_operation, "bytes", "machine code"),
            Evidence("with large tiles", at_best, "bytes", "model"),
            Evidence("operations", operations, "", "declaration"),
        ],
    )


def _bytes_per_operation(kernel: Kernel) -> float:
    """Of one turn of the loop that loads; 0 where it does not tell."""
    code = kernel.loop or {}
    multiplied = kernel.product_flops * sum(code.get(name, 0) for name in ("tensor_mma", "tensor_wgmma"))
    loaded = kernel.load_bytes * sum(code.get(name, 0) for name in ("global_load", "async_copy"))
    return loaded / multiplied if multiplied and not code.get("bulk_copy") else 0.0
