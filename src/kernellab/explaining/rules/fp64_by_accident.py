"""fp64 by accident: double arithmetic in a kernel whose data is narrower, from a literal without an f or a cast.

    fp64 time = fp64 instructions × turns × threads / (fp64 results per clock and SM × SMs × clock),
        and no less than the op's declared operations take in fp64
    gain = time predicted now / time predicted with the same number of fp32 instructions

Where doubles are in a loop of which nothing says how often it turns, and the measured time is far beyond the predicted
one, all of that time is taken to be theirs. Where most arithmetic is in fp64, or it takes half of the time, it is told
even if moving the bytes hides it today: no gain is promised then.

The rates are the architecture's: one fp64 result for two in fp32 on data-centre GPUs, one for 64 on others.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, settled
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import UNEXPLAINED, double_share, main_kernel

_LEAST = 1.05


def look(subject: Subject) -> Finding | None:
    found = main_kernel(subject)
    device = subject.device
    if found is None or device is None or subject.dtype == "float64":
        return None
    kernel, priced = found
    doubles = kernel.instructions.get("fp64", 0)
    if not doubles:
        return None
    ratio = device.chip.fp32_per_clock / (device.chip.fp64_per_clock or device.chip.fp32_per_clock)
    # A double function (exp, tanh) is a long polynomial where fp32 has a short one: of the issue slots a few are left.
    shorter = 1 if (subject.cost or {})["flops"].get("fp32") else 2
    single = priced.without(fp64=priced.fp64 / ratio / shorter, issue=priced.issue / 2)
    estimate = priced.time_us / single
    if kernel.unknown_turns.get("fp64") and (subject.time_us or 0.0) > UNEXPLAINED * priced.time_us:
        estimate = (subject.time_us or 0.0) / max((subject.time_us or 0.0) / ratio, single)
    gain = settled(estimate, subject.headroom) if estimate > _LEAST else None
    if gain is None and priced.fp64 < 0.5 * priced.time_us and double_share(kernel) < 0.5:
        return None
    return Finding(
        rule="fp64-by-accident",
        title=f"{doubles} fp64 instructions in a {subject.dtype} kernel: a double literal, or a cast",
        gain=gain,
        do="write 0.5f instead of 0.5, tanhf instead of tanh (CUDA C++); keep constants and accumulators in float32",
        sure="computed" if kernel.loop is None else "likely",
        evidence=[
            Evidence("fp64 instructions", doubles, "", "machine code"),
            Evidence("fp32 results in the time of one in fp64", ratio, "", "GPU database"),
            Evidence("fp64, predicted", priced.fp64, "µs", "model"),
            Evidence("memory, predicted", priced.memory, "µs", "model"),
        ],
    )
