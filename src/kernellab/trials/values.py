"""What can be in a tensor: values at which kernels go wrong that are right on N(0, 1)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

Fill = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def _sprinkled(*specials: float) -> Fill:
    """About one element in eight replaced; rows and columns without any are left on purpose."""

    def fill(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        marks = torch.rand(x.shape, generator=generator, device=x.device) < 0.125
        if x.dim() > 1 and x.shape[0] > 1:
            marks[-1] = False
        which = torch.randint(0, len(specials), x.shape, generator=generator, device=x.device)
        chosen = torch.tensor(specials, dtype=x.dtype, device=x.device)[which]
        return torch.where(marks, chosen, x)

    return fill


LARGE = "large to overflow"


def _large(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Four elements near the dtype's largest, the others evenly by exponent far below: squares overflow, and exp.

    Sums do not, over any dims, in whatever order they are taken, and with weights from N(0, 1) neither: all
    magnitudes together are an eighth of the largest. Which partial sum overflows is no kernel's fault.
    """
    top = math.log2(torch.finfo(x.dtype).max)
    high = top - 7 - math.log2(max(1, x.numel()))
    low = min(0.0, high - 8)
    exponents = torch.rand(x.shape, generator=generator, device=x.device, dtype=torch.float64) * (high - low) + low
    for number, place in enumerate(range(0, x.numel(), x.numel() // 4 + 1)):  # no two in one row or column
        exponents.view(-1)[place] = top - 4 - number  # no two the same, which would cancel
    return (torch.exp2(exponents) * torch.where(x < 0, -1.0, 1.0)).to(x.dtype)


def _moderately_large(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Up to a few hundred: where exp overflows although nothing else does."""
    return (x.double() * 60).to(x.dtype)


def _tiny(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """From the smallest denormal to the smallest normal number and a little above."""
    info = torch.finfo(x.dtype)
    low, high = (
        float(torch.log2(torch.tensor(v, dtype=torch.float64))) for v in (info.tiny * info.eps, info.tiny * 16)
    )
    exponents = low + torch.rand(x.shape, generator=generator, device=x.device, dtype=torch.float64) * (high - low)
    return (torch.exp2(exponents) * torch.where(x < 0, -1.0, 1.0)).to(x.dtype)


def _minus_infinite_rows(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Every other row is −inf throughout, as a mask makes it."""
    out = x.clone()
    if x.dim() > 1:
        out[::2] = -torch.inf
    elif x.dim() == 1:
        out[:] = -torch.inf
    return out


def _equal(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.full_like(x, 0.7)


def _zeros(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.zeros_like(x)


def _alternating(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Sums cancel: what is left is what rounding left."""
    signs = torch.ones(x.shape[-1] if x.dim() else 1, device=x.device, dtype=x.dtype)
    signs[1::2] = -1
    return (x.abs() + 1) * (signs if x.dim() else signs[0])


def _outlier(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    out = x.clone()
    if x.numel():
        out.view(-1)[x.numel() // 2] = 1e4
    return out


VALUES: dict[str, Fill] = {
    LARGE: _large,
    "moderately large": _moderately_large,
    "tiny and denormal": _tiny,
    "with ±inf": _sprinkled(float("inf"), float("-inf")),
    "with NaN": _sprinkled(float("nan")),
    "rows of -inf": _minus_infinite_rows,
    "all equal": _equal,
    "all zero": _zeros,
    "alternating signs": _alternating,
    "one outlier": _outlier,
}


def fill(x: torch.Tensor, values: str, generator: torch.Generator) -> torch.Tensor:
    """The tensor with other values of the same shape and dtype; `x`, drawn from N(0, 1), is what they are made of."""
    return VALUES[values](x, generator)


# Index inputs: always valid ones.


def _ends(x: torch.Tensor, below: int, sentinel: int | None) -> torch.Tensor:
    flat = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    return torch.where(flat % 2 == 0, 0, max(0, below - 1))


def _one_place(x: torch.Tensor, below: int, sentinel: int | None) -> torch.Tensor:
    return torch.full_like(x, max(0, below - 1))


def _only_sentinels(x: torch.Tensor, below: int, sentinel: int | None) -> torch.Tensor:
    return torch.full_like(x, sentinel if sentinel is not None else 0)


def _no_sentinel(x: torch.Tensor, below: int, sentinel: int | None) -> torch.Tensor:
    return x if sentinel is None else torch.where(x == sentinel, 0, x)


INDICES: dict[str, Callable[[torch.Tensor, int, int | None], torch.Tensor]] = {
    "first and last": _ends,
    "one and the same": _one_place,
    "only sentinels": _only_sentinels,
    "no sentinel": _no_sentinel,
}
