"""`kl.Cost`: the fewest bytes an op must move, and its arithmetic. `pass_cost` computes it for a pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from kernellab.declaration.documents import CostJson


class HasBytes(Protocol):
    """A tensor, as far as its size matters here."""

    def numel(self) -> int: ...
    def element_size(self) -> int: ...


@dataclass(frozen=True)
class Cost:
    """The fewest bytes an op must move, and its arithmetic by unit.

    `read` and `write` hold tensors or numbers of bytes. `flops` is keyed by the unit that does the work: `matmul` for
    multiply-adds that a tensor core can do, `fp32` for ordinary arithmetic.
    """

    read: Sequence[HasBytes | int | None] = ()
    write: Sequence[HasBytes | int | None] = ()
    flops: Mapping[str, int] = field(default_factory=dict)

    @property
    def bytes_read(self) -> int:
        return sum(map(_count_bytes, self.read))

    @property
    def bytes_written(self) -> int:
        return sum(map(_count_bytes, self.write))

    def to_json(self) -> CostJson:
        return {
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "flops": dict(self.flops),
        }


# An op's `cost=` and `grad_cost=`: called like the op, with its tensors and options.
CostFunction: TypeAlias = Callable[..., Cost]  # type: ignore[explicit-any]


def _count_bytes(value: HasBytes | int | None) -> int:
    if value is None:
        return 0
    return value if isinstance(value, int) else int(value.numel()) * int(value.element_size())
