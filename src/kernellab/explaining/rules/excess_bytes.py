"""The implementation's own kernels and the operators between them move more bytes than the op needs.

Each kernel is assumed to touch every tensor it gets once. Operators of PyTorch are counted as they were dispatched.

    gain = bytes of all of them / fewest bytes

A matmul reads its operands many times from caches, whatever it gets. Beside one, only operators count:

    gain = 1 + bytes of the operators / bandwidth / limit of the matmul

Reading an input in two kernels, an intermediate in float32, and a copy to make a tensor contiguous all show here. A
kernel that reads one tensor twice does not: see `reads_again`.
"""

from __future__ import annotations

from kernellab.base.text import plural
from kernellab.findings.finding import Evidence, Finding
from kernellab.findings.gain import cap_at_headroom
from kernellab.gpumodel.subject import Subject

NEEDS = "tensors that its own kernels get, and operators between them; beside a matmul only the operators"
GAIN = "those bytes over the fewest"

_THRESHOLD = 1.2


def examine(subject: Subject) -> Finding | None:
    if not subject.kernels or not subject.fewest_bytes:
        return None
    if any(k.pointer_bytes is None for k in subject.kernels):
        return None
    kernel_bytes = sum((k.pointer_bytes or 0) * k.times for k in subject.kernels)
    sizes = [o.moved_bytes for o in subject.operators or () if not o.is_product]
    operator_bytes = sum(size for size in sizes if size is not None)
    moved = kernel_bytes + operator_bytes
    gain = cap_at_headroom(_speedup(subject, moved, operator_bytes), subject.headroom)
    if gain < _THRESHOLD:
        return None
    launches = sum(k.times for k in subject.kernels)
    movers = [plural(launches, "kernel")]
    if operator_bytes:
        movers.append(plural(sum(size is not None for size in sizes), "operator"))
    verb = "moves" if movers == ["1 kernel"] else "move"
    return Finding(
        title=f"{' and '.join(movers)} {verb} {moved / 1e6:.4g} MB where {subject.fewest_bytes / 1e6:.4g} MB suffice",
        gain=gain,
        do="keep what a kernel has read in registers or shared memory instead of reading it again; read the input "
        "directly, without a copy or a wider dtype in between",
        confidence="computed",
        evidence=[
            Evidence("tensors its kernels get", kernel_bytes, "bytes", "launch"),
            Evidence("moved by operators", operator_bytes, "bytes", "torch's dispatcher"),
            Evidence("fewest", subject.fewest_bytes, "bytes", "declaration"),
        ],
    )


def _speedup(subject: Subject, moved: int, operator_bytes: int) -> float:
    if not subject.matmul_flops:
        return moved / subject.fewest_bytes
    limit = subject.limit
    if limit is None or not limit.roof_us or not subject.gbps:
        return 1.0
    return 1 + operator_bytes / subject.gbps / 1e3 / limit.roof_us
