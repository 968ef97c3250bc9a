"""Operators pass whole tensors to each other through memory.

    gain = Σ max(bytes of an operator / bandwidth, launch floor) / (fewest bytes / bandwidth)

The bytes are counted as torch dispatches each operator: see `gpumodel/fusion.py`. Where the chain was timed, the gain
is corrected by its headroom: fusing also removes what an operator loses beside moving its bytes. Where fused
implementations were timed too, the gain is at most that of the fastest.

Where launching the kernels takes most of the time, `launch_bound` applies instead; where the implementation has kernels
of its own, `excess_bytes`.
"""

from __future__ import annotations

from kernellab.findings.finding import Confidence, Evidence, Finding
from kernellab.findings.gain import correct_by_headroom
from kernellab.gpumodel.fusion import Fusion
from kernellab.gpumodel.subject import Subject

NEEDS = "bytes that each operator moves"
GAIN = "[the chain against the fewest bytes](roofline.md); no more than a fused implementation at the same case shows"

_THRESHOLD = 1.15


def examine(subject: Subject) -> Finding | None:
    chain = subject.chain
    if chain is None or len(chain.steps) < 2 or chain.gain < _THRESHOLD or subject.kernels or not subject.gbps:
        return None
    if subject.launch_floor_us * chain.kernels > chain.moved_bytes / subject.gbps / 1e3:
        return None
    movers = f"{len(chain.steps)} operators" if subject.device is None else f"{chain.kernels} kernels"
    moved, fewest = _sizes(subject, chain)
    predicted = correct_by_headroom(chain.gain, subject.headroom)
    gain, gain_text, shown = _limit_to_fused_impls(subject, predicted)
    return Finding(
        title=f"{movers} move {moved} where {fewest} suffice{gain_text}",
        gain=gain,
        do="compute it in one kernel: torch.compile does that for chains like this one, Triton and CUDA C++ by hand",
        confidence="measured" if shown else _confidence_of_model(subject, chain),
        evidence=[
            Evidence("moved by the chain", chain.moved_bytes, "bytes", "torch's dispatcher"),
            Evidence("fewest", chain.fewest_bytes, "bytes", "declaration"),
            Evidence("chain, predicted", chain.chain_us, "µs", "model"),
            Evidence("fused, predicted", chain.fused_us, "µs", "model"),
            Evidence("gain, predicted", predicted, "times as fast", "model"),
            *([Evidence("intermediates", "fit into L2", "", "model")] if chain.resident else []),
            *_fastest_other(subject),
        ],
    )


def _limit_to_fused_impls(subject: Subject, gain: float) -> tuple[float | None, str, bool]:
    """The gain with its text, and whether a fused implementation shows less than the prediction."""
    timed = [impl for impl in subject.fused_impls if subject.other_times_us[impl] > 0]
    fastest = min(timed, key=lambda impl: subject.other_times_us[impl], default=None)
    if fastest is None or subject.time_us is None or subject.time_us / subject.other_times_us[fastest] >= gain:
        return gain, f": fusing gains about {gain:.3g}×", False
    measured = subject.time_us / subject.other_times_us[fastest]
    if measured < _THRESHOLD:
        return None, f", but {fastest}, which is fused, gains nothing", True
    return measured, f": fusing gains about {measured:.3g}×, as {fastest} shows", True


def _confidence_of_model(subject: Subject, chain: Fusion) -> Confidence:
    # On a CPU an operator may be bound by its arithmetic: fusing then saves less than the bytes predict.
    return "likely" if chain.resident or subject.device is None else "computed"


def _fastest_other(subject: Subject) -> list[Evidence]:
    """The fastest other implementation, where it is faster."""
    fastest = min(subject.other_times_us, key=lambda impl: subject.other_times_us[impl], default=None)
    if fastest is None or subject.time_us is None or subject.other_times_us[fastest] >= subject.time_us:
        return []
    speedup = subject.time_us / subject.other_times_us[fastest]
    return [Evidence(f"{fastest}, for comparison", speedup, "times as fast", "timing")]


def _sizes(subject: Subject, chain: Fusion) -> tuple[str, str]:
    """In tensors of the input's size for an op that reads and writes the same size; otherwise in megabytes."""
    cost = subject.cost
    if cost and cost["bytes_read"] == cost["bytes_written"]:
        return f"{chain.moved_bytes / cost['bytes_written']:.3g} tensors", "2"
    return f"{chain.moved_bytes / 1e6:.4g} MB", f"{chain.fewest_bytes / 1e6:.4g} MB"
