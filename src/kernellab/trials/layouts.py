"""Ways a tensor can lie in memory: each lays out a contiguous tensor anew, inside memory fenced by `Fence`.

What lies between and around the elements is poison: whoever reads it shows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from kernellab.trials.guard_bands import Fence

Lay = Callable[[torch.Tensor, Fence], torch.Tensor]

_FAR = (1 << 30) + 64  # twice this, in elements, is beyond what 32 bits hold


def _strided(x: torch.Tensor, fence: Fence, strides: Sequence[int], offset: int = 0) -> torch.Tensor:
    """A copy of x with these strides, its first element `offset` elements behind the fence's beginning."""
    reach = offset + 1 + sum((n - 1) * s for n, s in zip(x.shape, strides, strict=True)) if x.numel() else offset
    room = fence.room(reach, x.dtype, x.device, vast=reach > _FAR)
    laid = room.as_strided(x.shape, tuple(strides), room.storage_offset() + offset)
    laid.copy_(x)
    return laid


def _strides(sizes: Sequence[int], inner: int = 1) -> list[int]:
    """Row-major strides for these sizes."""
    strides = [inner]
    for n in reversed(sizes[1:]):
        strides.insert(0, strides[0] * max(1, n))
    return strides[: len(sizes)] if sizes else []


def contiguous(x: torch.Tensor, fence: Fence) -> torch.Tensor:
    return _strided(x, fence, _strides(x.shape))


def _transposed(x: torch.Tensor, fence: Fence) -> torch.Tensor:
    strides = _strides([*x.shape[:-2], x.shape[-1], x.shape[-2]])
    return _strided(x, fence, [*strides[:-2], strides[-1], strides[-2]])


def _rows(x: torch.Tensor, fence: Fence) -> torch.Tensor:
    """x[1:-1] of something with two rows more: contiguous, but not at the beginning."""
    return _strided(x, fence, _strides(x.shape), offset=math.prod(x.shape[1:]))


def _columns(x: torch.Tensor, fence: Fence) -> torch.Tensor:
    """x[..., 3:-2]: rows are further apart than they are wide, and begin at odd places."""
    return _strided(x, fence, _strides([*x.shape[:-1], x.shape[-1] + 5]), offset=3)


def _every_second(x: torch.Tensor, fence: Fence) -> torch.Tensor:
    return _strided(x, fence, _strides(x.shape, inner=2))


def _every_second_row(x: torch.Tensor, fence: Fence) -> torch.Tensor:
    strides = _strides(x.shape)
    return _strided(x, fence, [2 * strides[0], *strides[1:]])


def _expanded_rows(x: torch.Tensor, fence: Fence) -> torch.Tensor:
    """One row seen many times, stride 0."""
    return contiguous(x[:1], fence).expand(x.shape) if x.shape[0] else contiguous(x, fence)


def _expanded_columns(x: torch.Tensor, fence: Fence) -> torch.Tensor:
    return contiguous(x[..., :1], fence).expand(x.shape) if x.shape[-1] else contiguous(x, fence)


def _misaligned(x: torch.Tensor, fence: Fence) -> torch.Tensor:
    """One element off: no address of a row is a multiple of 16 bytes by rights."""
    return _strided(x, fence, _strides(x.shape), offset=1)


def _half(second: bool) -> Lay:
    """One of the halves of `chunk(2, dim=-1)`."""

    def lay(x: torch.Tensor, fence: Fence) -> torch.Tensor:
        width = x.shape[-1]
        return _strided(x, fence, _strides([*x.shape[:-1], 2 * width]), offset=width if second else 0)

    return lay


def _channels_last(x: torch.Tensor, fence: Fence) -> torch.Tensor:
    _, c, h, w = x.shape
    return _strided(x, fence, [c * h * w, 1, w * c, c])


def _far_rows(x: torch.Tensor, fence: Fence) -> torch.Tensor:
    strides = _strides(x.shape)
    return _strided(x, fence, [_FAR, *strides[1:]])


def _far_columns(x: torch.Tensor, fence: Fence) -> torch.Tensor:
    """Columns further apart than 32 bits reach; rows side by side between them."""
    return _strided(x, fence, [*_strides(x.shape[:-1]), _FAR])


# Each with the fewest dims it makes sense for; the exact number where it is one.
LAYOUTS: dict[str, tuple[int, Lay]] = {
    "transposed": (2, _transposed),
    "sliced rows": (1, _rows),
    "sliced columns": (1, _columns),
    "every second element": (1, _every_second),
    "every second row": (2, _every_second_row),
    "expanded rows": (2, _expanded_rows),
    "expanded columns": (1, _expanded_columns),
    "misaligned": (1, _misaligned),
    "first half of a chunk": (1, _half(second=False)),
    "second half of a chunk": (1, _half(second=True)),
}
INDEX_LAYOUTS = ("transposed", "sliced columns", "every second element", "expanded columns")  # steps, not vectors
CHANNELS_LAST = "channels last"
FAR = {"far rows": (2, _far_rows), "far columns": (1, _far_columns)}
_ALL = {**LAYOUTS, **FAR, CHANNELS_LAST: (4, _channels_last)}


def lay(x: torch.Tensor, layout: str, fence: Fence) -> torch.Tensor:
    """The tensor's values in a layout. An expanded one keeps the values of its first row or column only."""
    if layout == "contiguous":
        return contiguous(x, fence)
    return _ALL[layout][1](x, fence)


def fits(layout: str, rank: int) -> bool:
    fewest = _ALL[layout][0]
    return rank == fewest if layout == CHANNELS_LAST else rank >= fewest


def far_elements(layouts: Sequence[str], shape: Sequence[int]) -> int:
    """Elements of memory a far layout spans; 0 for the others."""
    widths = {"far rows": shape[0] if shape else 0, "far columns": shape[-1] if shape else 0}
    return max((widths[layout] * _FAR for layout in layouts if layout in widths), default=0)
