"""A kernel of narrower data does arithmetic in double, from a literal without an f or a cast.

    fp64 time = fp64 instructions × iterations × threads / (fp64 results per clock and SM × SMs × clock),
        and at least the time of the op's declared operations in fp64
    gain = predicted time / predicted time with as many fp32 instructions

Where doubles are in a loop of unknown length and the measured time is far beyond the predicted one, all of that time is
attributed to them. Where most arithmetic is in fp64, or it takes half of the time, it is reported without a gain even
if moving the bytes hides it today.

The rates are the architecture's: one fp64 result for two in fp32 on data-centre GPUs, one for 64 on others.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.findings.gain import correct_by_headroom
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import UNEXPLAINED_FACTOR, fp64_share, slowest_kernel

NEEDS = "fp64 instructions in a kernel of narrower data"
GAIN = "their time at the architecture's rate; none where moving the bytes hides them"

_THRESHOLD = 1.05
_MOST = 0.5


def examine(subject: Subject) -> Finding | None:
    slowest = slowest_kernel(subject)
    device, cost = subject.device, subject.cost
    if slowest is None or device is None or not cost or subject.dtype == "float64":
        return None
    kernel, estimate = slowest
    doubles = kernel.instructions.get("fp64", 0)
    if not doubles:
        return None
    rate_ratio = device.chip.fp32_per_clock / (device.chip.fp64_per_clock or device.chip.fp32_per_clock)
    # A double function (exp, tanh) is a long polynomial where fp32 has a short one: about half of the instructions go.
    shorter = 1 if cost["flops"].get("fp32") else 2
    in_fp32_us = estimate.time_us_with(fp64=estimate.fp64 / rate_ratio / shorter, issue=estimate.issue / 2)
    speedup = estimate.time_us / in_fp32_us
    time_us = subject.time_us or 0.0
    if kernel.unknown_turns.get("fp64") and time_us > UNEXPLAINED_FACTOR * estimate.time_us:
        speedup = time_us / max(time_us / rate_ratio, in_fp32_us)
    gain = correct_by_headroom(speedup, subject.headroom) if speedup > _THRESHOLD else None
    if gain is None and estimate.fp64 < _MOST * estimate.time_us and fp64_share(kernel) < _MOST:
        return None
    return Finding(
        title=f"{doubles} fp64 instructions in a {subject.dtype} kernel: a double literal, or a cast",
        gain=gain,
        do="write 0.5f instead of 0.5, tanhf instead of tanh (CUDA C++); keep constants and accumulators in float32",
        confidence="computed" if kernel.loop is None else "likely",
        evidence=[
            Evidence("fp64 instructions", doubles, "", "machine code"),
            Evidence("fp32 rate over fp64 rate", rate_ratio, "", "GPU database"),
            Evidence("fp64, predicted", estimate.fp64, "µs", "model"),
            Evidence("memory, predicted", estimate.memory, "µs", "model"),
        ],
    )
