"""What an unfused chain pays: the bytes its operators move between them, against the fewest the op needs.

Every operator of a chain reads its inputs and writes its result, so that what one leaves the next fetches again. The
time predicted is Σ max(bytes / bandwidth, launch floor) over the operators; fused, one kernel moves the fewest bytes.
The gain is the quotient. It supposes that each operator, and the fused kernel, runs at the measured copy bandwidth.

An intermediate that fits into half of L2 is still there when the next operator asks for it. It is then charged at
`L2_OVER_MEMORY` times the bandwidth, and the prediction is marked: how much of it stays is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# A100: L2 delivers 5120 bytes a clock, 7.2 TB/s, against 1.6 to 2.0 of memory (NVIDIA's whitepaper): about four times
# in reading. Reads and writes share it, and few kernels reach it: half of that.
L2_OVER_MEMORY = 2.0
_KEPT_IN_L2 = 0.5


@dataclass(frozen=True)
class Step:
    """One operator of a chain: what it moves, and the time that takes at least."""

    op: str
    kernels: int
    read_bytes: int
    write_bytes: int
    time_us: float


@dataclass(frozen=True)
class Fusion:
    """`resident`: intermediates are small enough to stay in L2, and the gain is the less certain for it."""

    steps: list[Step]
    moved_bytes: int
    fewest_bytes: int
    chain_us: float
    fused_us: float
    resident: bool

    @property
    def gain(self) -> float:
        return self.chain_us / self.fused_us

    @property
    def kernels(self) -> int:
        return sum(step.kernels for step in self.steps)


def fusion(
    traffic: Sequence[Mapping[str, Any]] | None,
    fewest_bytes: int,
    gbps: float,
    *,
    floor_us: float = 0.0,
    l2_bytes: int | None = None,
) -> Fusion | None:
    """`traffic` as the record has it; None where an operator's bytes are not known, or there is none."""
    if not traffic or not fewest_bytes or any(one["read_bytes"] is None for one in traffic):
        return None
    last = len(traffic) - 1
    steps, resident = [], False
    for at, one in enumerate(traffic):
        kernels = len(one["kernels"]) if "kernels" in one else 1
        memory, cached = float(one["read_bytes"] + one["write_bytes"]), 0.0
        if l2_bytes and at and one["read_bytes"] <= _KEPT_IN_L2 * l2_bytes:
            memory, cached = memory - one["read_bytes"], cached + one["read_bytes"]
        if l2_bytes and at < last and one["write_bytes"] <= _KEPT_IN_L2 * l2_bytes:
            memory, cached = memory - one["write_bytes"], cached + one["write_bytes"]
        # A row's maximum is small beside its row, and nobody waits for it: that is no residency to speak of.
        resident |= cached > 0.25 * (one["read_bytes"] + one["write_bytes"])
        moving = (memory + cached / L2_OVER_MEMORY) / gbps / 1e3
        steps.append(
            Step(
                str(one["op"]), kernels, one["read_bytes"], one["write_bytes"], max(moving, floor_us * max(kernels, 1))
            )
        )
    return Fusion(
        steps=steps,
        moved_bytes=sum(step.read_bytes + step.write_bytes for step in steps),
        fewest_bytes=fewest_bytes,
        chain_us=sum(step.time_us for step in steps),
        fused_us=max(fewest_bytes / gbps / 1e3, floor_us),
        resident=resident,
    )
