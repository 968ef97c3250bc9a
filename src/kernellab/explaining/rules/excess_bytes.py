"""Excess bytes: kernels of the way's own that together are given more than the op has to move.

Each kernel is taken to touch every tensor it is given once; PyTorch's operators between them are counted as dispatched.

    gain = Σ bytes of all of them / fewest bytes

Reading an input in two kernels, an intermediate in float32, a copy to make it contiguous: all show here. That a kernel
reads one tensor twice does not: see `reads_again`.
"""

from __future__ import annotations

from kernellab.explaining.finding import Evidence, Finding, settled
from kernellab.explaining.subject import Subject

_LEAST = 1.2


def look(subject: Subject) -> Finding | None:
    if not subject.kernels or not subject.fewest_bytes:
        return None
    if any(k.pointer_bytes is None for k in subject.kernels):
        return None
    own = sum((k.pointer_bytes or 0) * k.times for k in subject.kernels)
    operators = sum(
        one["read_bytes"] + one["write_bytes"] for one in subject.traffic or () if one["read_bytes"] is not None
    )
    moved = own + operators
    ratio = moved / subject.fewest_bytes
    if ratio < _LEAST or (subject.cost or {}).get("flops", {}).get("matmul"):
        return None
    gain = min(ratio, settled(ratio, subject.headroom))
    if gain < _LEAST:
        return None
    count = sum(k.times for k in subject.kernels)
    beside = f" and {len(subject.traffic or ())} operators" if operators else ""
    return Finding(
        rule="excess-bytes",
        title=f"{count} kernels{beside} move {moved / 1e6:.4g} MB where {subject.fewest_bytes / 1e6:.4g} MB would do",
        gain=gain,
        do="keep what a kernel has read in registers or shared memory instead of reading it again; read the input as "
        "it is, without a copy or a wider dtype in between",
        sure="computed",
        evidence=[
            Evidence("given to its kernels", own, "bytes", "launch"),
            Evidence("moved by operators", operators, "bytes", "torch's dispatcher"),
            Evidence("fewest", subject.fewest_bytes, "bytes", "declaration"),
        ],
    )
