"""Memory layouts of a tensor: each copies a contiguous tensor into guarded memory with other strides.

What lies between and around the elements is poison, so that code which reads it gives a wrong result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from kernellab.declaration.arguments import Arg
from kernellab.trials.guard_bands import GuardedMemory, span
from kernellab.trials.trial import CONTIGUOUS, CONTIGUOUS_LAYOUTS

Layout = Callable[[torch.Tensor, GuardedMemory], torch.Tensor]

_FAR = (1 << 30) + 64  # twice this number of elements exceeds what 32 bits hold


def _strided(
    x: torch.Tensor, memory: GuardedMemory, strides: Sequence[int], offset: int = 0, reach: int = 0
) -> torch.Tensor:
    """A copy of x with these strides; its first element is `offset` elements behind the first guard band."""
    count = offset + span(x.shape, strides)
    flat = memory.allocate(count, x.dtype, x.device, untouched=count > _FAR, reach=reach)
    strided = flat.as_strided(x.shape, tuple(strides), flat.storage_offset() + offset)
    strided.copy_(x)
    return strided


def _row_major(sizes: Sequence[int], inner: int = 1) -> list[int]:
    """The row-major strides of these sizes."""
    strides = [inner]
    for n in reversed(sizes[1:]):
        strides.insert(0, strides[0] * max(1, n))
    return strides[: len(sizes)] if sizes else []


def _contiguous(x: torch.Tensor, memory: GuardedMemory) -> torch.Tensor:
    return _strided(x, memory, _row_major(x.shape))


def _transposed(x: torch.Tensor, memory: GuardedMemory) -> torch.Tensor:
    strides = _row_major([*x.shape[:-2], x.shape[-1], x.shape[-2]])
    return _strided(x, memory, [*strides[:-2], strides[-1], strides[-2]])


def _rows(x: torch.Tensor, memory: GuardedMemory) -> torch.Tensor:
    """x[1:-1] of a tensor with two more rows: contiguous, but not at the start of its memory."""
    return _strided(x, memory, _row_major(x.shape), offset=math.prod(x.shape[1:]))


def _columns(x: torch.Tensor, memory: GuardedMemory) -> torch.Tensor:
    """x[..., 3:-2]: rows are further apart than they are wide, and start at odd addresses."""
    return _strided(x, memory, _row_major([*x.shape[:-1], x.shape[-1] + 5]), offset=3)


def _every_second(x: torch.Tensor, memory: GuardedMemory) -> torch.Tensor:
    return _strided(x, memory, _row_major(x.shape, inner=2))


def _every_second_row(x: torch.Tensor, memory: GuardedMemory) -> torch.Tensor:
    strides = _row_major(x.shape)
    return _strided(x, memory, [2 * strides[0], *strides[1:]])


def _expanded_rows(x: torch.Tensor, memory: GuardedMemory) -> torch.Tensor:
    """The first row repeated with stride 0."""
    return expanded(x[:1], x.shape, memory) if x.shape[0] else _contiguous(x, memory)


def _expanded_columns(x: torch.Tensor, memory: GuardedMemory) -> torch.Tensor:
    return expanded(x[..., :1], x.shape, memory) if x.shape[-1] else _contiguous(x, memory)


def expanded(x: torch.Tensor, shape: Sequence[int], memory: GuardedMemory) -> torch.Tensor:
    """A copy of x repeated with stride 0. Code that takes it for contiguous stays within its guard bands."""
    return _strided(x, memory, _row_major(x.shape), reach=math.prod(shape)).expand(shape)


def _misaligned(x: torch.Tensor, memory: GuardedMemory) -> torch.Tensor:
    """Starts one element late: the address is not a multiple of 16 bytes."""
    return _strided(x, memory, _row_major(x.shape), offset=1)


def _half_of_chunk(*, second: bool) -> Layout:
    """One of the halves that `chunk(2, dim=-1)` returns."""

    def apply(x: torch.Tensor, memory: GuardedMemory) -> torch.Tensor:
        width = x.shape[-1]
        return _strided(x, memory, _row_major([*x.shape[:-1], 2 * width]), offset=width if second else 0)

    return apply


def _channels_last(x: torch.Tensor, memory: GuardedMemory) -> torch.Tensor:
    _, c, h, w = x.shape
    return _strided(x, memory, [c * h * w, 1, w * c, c])


def _swapped(x: torch.Tensor, memory: GuardedMemory) -> torch.Tensor:
    """`y.transpose(0, 1)` of a contiguous y, as between batch and sequence, or sequence and heads."""
    first, second, *rest = x.shape
    strides = _row_major([second, first, *rest])
    return _strided(x, memory, [strides[1], strides[0], *strides[2:]])


def _sliced_second(x: torch.Tensor, memory: GuardedMemory) -> torch.Tensor:
    """x[:, 1:-1] of a tensor with two more in its second dim: rows are dense, but no stride spans the dims before."""
    first, second, *rest = x.shape
    return _strided(x, memory, _row_major([first, second + 2, *rest]), offset=math.prod(rest))


def _far_rows(x: torch.Tensor, memory: GuardedMemory) -> torch.Tensor:
    return _strided(x, memory, [_FAR, *_row_major(x.shape)[1:]])


def _far_columns(x: torch.Tensor, memory: GuardedMemory) -> torch.Tensor:
    """Columns further apart than 32 bits reach; rows next to each other between them."""
    return _strided(x, memory, [*_row_major(x.shape[:-1]), _FAR])


# Each layout with the fewest dims it needs; channels last needs exactly four.
LAYOUTS: dict[str, tuple[int, Layout]] = {
    "transposed": (2, _transposed),
    "sliced rows": (1, _rows),
    "sliced columns": (1, _columns),
    "every second element": (1, _every_second),
    "every second row": (2, _every_second_row),
    "expanded rows": (2, _expanded_rows),
    "expanded columns": (1, _expanded_columns),
    "misaligned": (1, _misaligned),
    "first half of a chunk": (1, _half_of_chunk(second=False)),
    "second half of a chunk": (1, _half_of_chunk(second=True)),
}
# Of three dims and more. Code that merges the leading dims into rows is wrong in these alone.
DEEP_LAYOUTS: dict[str, tuple[int, Layout]] = {
    "first two dims swapped": (3, _swapped),
    "second dim sliced": (3, _sliced_second),
}
INDEX_LAYOUTS = ("transposed", "sliced columns", "every second element", "expanded columns")  # strides, not vectors
CHANNELS_LAST = "channels last"
FAR: dict[str, tuple[int, Layout]] = {"far rows": (2, _far_rows), "far columns": (1, _far_columns)}
_ALL: dict[str, tuple[int, Layout]] = {
    CONTIGUOUS: (0, _contiguous),
    **LAYOUTS,
    **DEEP_LAYOUTS,
    **FAR,
    CHANNELS_LAST: (4, _channels_last),
}


def apply_layout(x: torch.Tensor, layout: str, memory: GuardedMemory) -> torch.Tensor:
    """A copy of the tensor in a layout. An expanded one keeps only the values of its first row or column."""
    _, apply = _ALL[layout]
    return apply(x, memory)


def fits(layout: str, rank: int) -> bool:
    """Whether a layout exists for tensors with this number of dims."""
    fewest, _ = _ALL[layout]
    return rank == fewest if layout == CHANNELS_LAST else rank >= fewest


def allows_layout(arg: Arg, layout: str, rank: int) -> bool:
    """Whether an input with this number of dims may be tried in a layout: it exists, and its declaration allows it.

    An expanded tensor repeats some of its values, which is not allowed where the values of a row belong together.
    """
    if arg.contiguous and layout not in CONTIGUOUS_LAYOUTS:
        return False
    belong_together = getattr(arg.values, "rows_belong_together", arg.values is not None)
    return fits(layout, rank) and not (belong_together and "expanded" in layout)


def far_span(layout: str, shape: Sequence[int]) -> int:
    """The number of elements that a far layout spans; 0 for the other layouts."""
    rows = {"far rows": shape[0] if shape else 0, "far columns": shape[-1] if shape else 0}
    return rows.get(layout, 0) * _FAR
