"""The implementation runs at the measured limit of the machine.

    share = limit / time

The limit is the op's fewest bytes over the measured copy bandwidth, or its matmul operations over the measured matmul
rate. From `AT_LIMIT` on no gain is left that is worth the work: two good kernels differ by as much.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, Precedence
from kernellab.gpumodel.regime import AT_LIMIT
from kernellab.gpumodel.subject import Subject

NEEDS = "time against the measured limit"
GAIN = "none: 90 % of the limit or more. No other gain is reported then"
PRECEDENCE = Precedence.NO_GAIN_LEFT


def examine(subject: Subject) -> Finding | None:
    limit = subject.limit
    if limit is None or limit.fraction is None or limit.fraction < AT_LIMIT or subject.cache == "warm":
        return None
    in_memory = limit.bound == "memory"
    rate, unit = (limit.gbps, "GB/s") if in_memory else (limit.tflops, "TFLOP/s")
    return Finding(
        title=f"at the limit: {100 * limit.fraction:.0f} % of measured {'bandwidth' if in_memory else 'matmul rate'}",
        do="leave it as it is: to be faster, the op itself would have to move or compute less",
        confidence="measured",
        evidence=[
            Evidence("rate", rate or 0.0, unit, "timing"),
            Evidence("share of the limit", limit.fraction, "", "timing"),
        ],
    )
