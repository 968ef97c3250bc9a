"""fp64 by accident: double arithmetic in a kernel whose data is narrower, from a literal without an f or a cast.

    fp64 time = fp64 instructions × turns × threads / (fp64 results per clock and SM × SMs × clock)
    gain = time predicted now / time predicted with the same number of fp32 instructions

The rates are the architecture's: one fp64 result for two in fp32 on data-centre GPUs, one for 64 on others.
"""

from __future__ import annotations

from kernellab.explaining.finding import Evidence, Finding, settled
from kernellab.explaining.prices import main_kernel
from kernellab.explaining.subject import Subject


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
    estimate = priced.time_us / priced.without(fp64=priced.fp64 / ratio / 2, issue=priced.issue / 2)
    gain = settled(estimate, subject.headroom) if estimate > 1.05 else estimate
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
