"""Excess bytes: kernels of the way's own that together are given more than the op has to move.

Each kernel is taken to touch every tensor it is given once; PyTorch's operators between them are counted as dispatched.

    gain = Σ bytes of all of them / fewest bytes

A product reads its operands many times over from caches, whatever it is given. Beside one only operators count:

    gain = 1 + bytes of the operators / bandwidth / the product's roof

Reading an input in two kernels, an intermediate in float32, a copy to make it contiguous: all show here. That a kernel
reads one tensor twice does not: see `reads_again`.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, capped
from kernellab.gpumodel.subject import Subject, is_product

_LEAST = 1.2


def look(subject: Subject) -> Finding | None:
    if not subject.kernels or not subject.fewest_bytes:
        return None
    if any(k.pointer_bytes is None for k in subject.kernels):
        return None
    own = sum((k.pointer_bytes or 0) * k.times for k in subject.kernels)
    beside = [one for one in subject.traffic or () if one["read_bytes"] is not None and not is_product(str(one["op"]))]
    operators = sum(one["read_bytes"] + one["write_bytes"] for one in beside)
    moved = own + operators
    gain = capped(_ratio(subject, moved, operators), subject.headroom)
    if gain < _LEAST:
        return None
    who = [_many(sum(k.times for k in subject.kernels), "kernel")]
    who += [_many(len(beside), "operator")] if operators else []
    move = "moves" if who == ["1 kernel"] else "move"
    return Finding(
        rule="excess-bytes",
        title=f"{' and '.join(who)} {move} {moved / 1e6:.4g} MB where {subject.fewest_bytes / 1e6:.4g} MB would do",
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


def _ratio(subject: Subject, moved: int, operators: int) -> float:
    limit = subject.limit
    if not (subject.cost or {}).get("flops", {}).get("matmul"):
        return moved / subject.fewest_bytes
    if limit is None or not limit.roof_us or not subject.gbps:
        return 1.0
    return 1 + operators / subject.gbps / 1e3 / limit.roof_us


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
