"""Nothing left: the way runs at the measured ceiling of what bounds it.

    share = roof / time, the roof being the op's fewest bytes over the measured copy bandwidth, or its matmul operations
    over the measured matmul rate

From `AT_LIMIT` of it on there is no gain left worth the work: two good kernels differ by as much.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.gpumodel.regime import AT_LIMIT
from kernellab.gpumodel.subject import Subject


def look(subject: Subject) -> Finding | None:
    limit = subject.limit
    if limit is None or limit.fraction is None or limit.fraction < AT_LIMIT or subject.cache == "warm":
        return None
    ceiling = "bandwidth" if limit.bound == "memory" else "matmul rate"
    rate = (limit.gbps, "GB/s") if limit.bound == "memory" else (limit.tflops, "TFLOP/s")
    return Finding(
        rule="at-the-limit",
        title=f"at the limit, nothing left: {100 * limit.fraction:.0f} % of measured {ceiling}",
        gain=None,
        do="leave it: to be faster the op itself would have to move or compute less",
        sure="measured",
        evidence=[
            Evidence("rate", rate[0] or 0.0, rate[1], "timing"),
            Evidence("share of the ceiling", limit.fraction, "", "timing"),
        ],
    )
