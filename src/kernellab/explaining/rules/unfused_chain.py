"""An unfused chain: operators that hand each other whole tensors through memory.

    gain = Σ max(bytes of an operator / bandwidth, launch floor) / (fewest bytes / bandwidth)

The bytes are counted as torch dispatches each operator, see `fusion`. Where the chain was timed, its time takes the
place of the sum: what an operator lost beside its bytes is gone after fusing as well. Where fused ways were timed too,
the gain is no more than the fastest of them shows: a model that promises more leaves something out.

Where starting the kernels takes most of that time it is rather `launch_bound`; where a kernel of the way's own is among
them, `excess_bytes`.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, settled
from kernellab.gpumodel.fusion import Fusion, fusion
from kernellab.gpumodel.subject import Subject

_LEAST = 1.15


def chain(subject: Subject) -> Fusion | None:
    """The operators of the way as a chain; None where there is none, or it is not known."""
    if not subject.gbps:
        return None
    l2 = subject.device.l2_bytes if subject.device else None
    return fusion(subject.traffic, subject.fewest_bytes, subject.gbps, floor_us=subject.row_floor_us, l2_bytes=l2)


def look(subject: Subject) -> Finding | None:
    found = chain(subject)
    if found is None or len(found.steps) < 2 or found.gain < _LEAST or subject.kernels:
        return None
    if subject.row_floor_us * found.kernels > found.moved_bytes / (subject.gbps or 1.0) / 1e3:
        return None
    many = f"{len(found.steps)} operators" if subject.device is None else f"{found.kernels} kernels"
    tensors, fewest = _in_tensors(subject, found)
    gain, told, shown = _gain(subject, found)
    return Finding(
        rule="unfused-chain",
        title=f"{many} move {tensors} where {fewest} would do{told}",
        gain=gain,
        do="compute it in one kernel: torch.compile does that for chains like this one, Triton and CUDA C++ by hand",
        # On a CPU an operator may be bound by its arithmetic: then fusing saves less than the bytes say.
        sure="measured" if shown else "likely" if found.resident or subject.device is None else "computed",
        evidence=[
            Evidence("moved by the chain", found.moved_bytes, "bytes", "torch's dispatcher"),
            Evidence("fewest", found.fewest_bytes, "bytes", "declaration"),
            Evidence("chain, predicted", found.chain_us, "µs", "model"),
            Evidence("fused, predicted", found.fused_us, "µs", "model"),
            Evidence("gain, predicted", settled(found.gain, subject.headroom), "times as fast", "model"),
            *([Evidence("intermediates", "fit into L2", "", "model")] if found.resident else []),
            *_beside(subject),
        ],
    )


def _gain(subject: Subject, found: Fusion) -> tuple[float | None, str, bool]:
    """With the words for it, and whether a fused way beside it shows it."""
    gain = settled(found.gain, subject.headroom)
    best = min(subject.fused, key=lambda way: subject.others[way], default=None)
    if best is None or subject.time_us is None or subject.time_us / subject.others[best] >= gain:
        return gain, f": fusing gains about {gain:.3g}×", False
    shown = subject.time_us / subject.others[best]
    if shown < _LEAST:
        return None, f", but {best}, which is fused, gains nothing", True
    return shown, f": fusing gains about {shown:.3g}×, as {best} shows", True


def _beside(subject: Subject) -> list[Evidence]:
    """What the fastest way beside it makes of the same op."""
    best = min(subject.others, key=lambda way: subject.others[way], default=None)
    if best is None or subject.time_us is None or subject.others[best] >= subject.time_us:
        return []
    return [Evidence(f"{best}, beside it", subject.time_us / subject.others[best], "times as fast", "timing")]


def _in_tensors(subject: Subject, found: Fusion) -> tuple[str, str]:
    """In tensors the size of the input where the op has one in and one out; otherwise in megabytes."""
    cost = subject.cost or {}
    if cost.get("bytes_read") == cost.get("bytes_written"):
        size = cost["bytes_written"]
        return f"{found.moved_bytes / size:.3g} tensors", "2"
    return f"{found.moved_bytes / 1e6:.4g} MB", f"{found.fewest_bytes / 1e6:.4g} MB"
