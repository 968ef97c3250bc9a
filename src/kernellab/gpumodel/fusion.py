"""The cost of an unfused chain of operators: the bytes that they move, against the fewest that the op needs.

Each operator of a chain reads its inputs from memory and writes its result there, and the next one reads it again.
Predicted time of the chain: Σ max(bytes / bandwidth, launch floor) over its operators. Fused, one kernel moves the
fewest bytes. The gain is the ratio of the two times. It assumes that every operator, and the fused kernel, reaches the
measured copy bandwidth.

An intermediate of at most half of L2 is still there when the next operator reads it. It is assumed to move at
`L2_OVER_MEMORY` times the bandwidth, and the prediction is marked as `resident`, because it is not known how much of it
stays in L2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# A100: L2 delivers 5120 bytes per clock, 7.2 TB/s, against 1.6 to 2.0 TB/s of memory (NVIDIA's whitepaper): about four
# times for reads. Reads and writes share it, and few kernels reach it, so half of that is assumed.
L2_OVER_MEMORY = 2.0
_KEPT_IN_L2 = 0.5
# The least share of an operator's bytes in L2 that marks the prediction. A smaller share, such as the maxima of rows,
# hardly changes the time.
_RESIDENT_SHARE = 0.25

_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "_scaled_mm", "convolution", "_int_mm")


@dataclass(frozen=True)
class DispatchedOperator:
    """One operator as torch dispatched it. Bytes are None if they are not known."""

    op: str
    read_bytes: int | None
    write_bytes: int | None
    kernels: int = 1

    @property
    def moved_bytes(self) -> int | None:
        return None if self.read_bytes is None or self.write_bytes is None else self.read_bytes + self.write_bytes

    @property
    def is_product(self) -> bool:
        """Whether it is a matmul: `aten::mm` or one of its variants."""
        return self.op.rpartition("::")[2].partition(".")[0] in _PRODUCTS


@dataclass(frozen=True)
class ChainStep:
    """One operator of a chain: its bytes, and the least time they take."""

    op: str
    kernels: int
    read_bytes: int
    write_bytes: int
    time_us: float


@dataclass(frozen=True)
class Fusion:
    """`resident`: intermediates may stay in L2, so the gain is less certain."""

    steps: list[ChainStep]
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
    operators: Sequence[DispatchedOperator] | None,
    fewest_bytes: int,
    gbps: float,
    *,
    floor_us: float = 0.0,
    l2_bytes: int | None = None,
) -> Fusion | None:
    """What fusing these operators gains; None if there are none or the bytes of one are not known."""
    if not operators or not fewest_bytes:
        return None
    steps, resident = [], False
    for index, operator in enumerate(operators):
        read, written = operator.read_bytes, operator.write_bytes
        if read is None or written is None:
            return None
        cached = 0
        if l2_bytes and index > 0 and read <= _KEPT_IN_L2 * l2_bytes:
            cached += read
        if l2_bytes and index < len(operators) - 1 and written <= _KEPT_IN_L2 * l2_bytes:
            cached += written
        resident |= cached > _RESIDENT_SHARE * (read + written)
        moving_us = (read + written - cached + cached / L2_OVER_MEMORY) / gbps / 1e3
        time_us = max(moving_us, floor_us * max(operator.kernels, 1))
        steps.append(ChainStep(operator.op, operator.kernels, read, written, time_us))
    return Fusion(
        steps=steps,
        moved_bytes=sum(step.read_bytes + step.write_bytes for step in steps),
        fewest_bytes=fewest_bytes,
        chain_us=sum(step.time_us for step in steps),
        fused_us=max(fewest_bytes / gbps / 1e3, floor_us),
        resident=resident,
    )
