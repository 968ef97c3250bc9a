"""Values at which kernels go wrong that are right on N(0, 1), and which of them an input may have.

The functions are also copied, as text, into scripts that reproduce a failure (`kernellab.reproduction.functions`). They
may use torch, imported modules, each other and constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from kernellab.declaration.arguments import Arg
from kernellab.vocabulary.value_kinds import Fill, ValueKind


def _sprinkle(*specials: float) -> Fill:
    """Replaces about one element in eight; the last row keeps ordinary values."""

    def fill(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        marked = torch.rand(x.shape, generator=generator, device=x.device) < 0.125
        if x.dim() > 1 and x.shape[0] > 1:
            marked[-1] = False
        which = torch.randint(0, len(specials), x.shape, generator=generator, device=x.device)
        chosen = torch.tensor(specials, dtype=x.dtype, device=x.device)[which]
        return torch.where(marked, chosen, x)

    return fill


LARGE = "large to overflow"


def _large(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Four elements near the dtype's largest number, the others spread evenly by exponent far below.

    Squares and exponentials overflow. Sums do not, over any dims and in any order, nor do sums weighted by N(0, 1):
    all magnitudes together are an eighth of the largest number. So no kernel fails because of the order of its sums.
    """
    top = math.log2(torch.finfo(x.dtype).max)
    high = top - 7 - math.log2(max(1, x.numel()))
    low = min(0.0, high - 8)
    exponents = torch.rand(x.shape, generator=generator, device=x.device, dtype=torch.float64) * (high - low) + low
    for number, place in enumerate(range(0, x.numel(), x.numel() // 4 + 1)):  # never two in one row or column
        exponents.view(-1)[place] = top - 4 - number  # all different: equal ones could cancel
    return (torch.exp2(exponents) * torch.where(x < 0, -1.0, 1.0)).to(x.dtype)


def magnitude(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return x.abs()


def _moderately_large(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Up to a few hundred: exp overflows, nothing else does."""
    return (x.double() * 60).to(x.dtype)


def _tiny(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """From the smallest denormal number to 16 times the smallest normal one."""
    info = torch.finfo(x.dtype)
    low, high = (
        float(torch.log2(torch.tensor(v, dtype=torch.float64))) for v in (info.tiny * info.eps, info.tiny * 16)
    )
    exponents = low + torch.rand(x.shape, generator=generator, device=x.device, dtype=torch.float64) * (high - low)
    return (torch.exp2(exponents) * torch.where(x < 0, -1.0, 1.0)).to(x.dtype)


def _minus_infinite_rows(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Every second row is −inf throughout, as after masking."""
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
    """Sums cancel: only rounding errors are left."""
    signs = torch.ones(x.shape[-1] if x.dim() else 1, device=x.device, dtype=x.dtype)
    signs[1::2] = -1
    return (x.abs() + 1) * (signs if x.dim() else signs[0])


def _outlier(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    out = x.clone()
    if x.numel():
        out.view(-1)[x.numel() // 2] = 1e4
    return out


def _large_negative(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """All below −110, where exp is 0 in float32: a maximum that is clamped or padded at 0 shows."""
    return (-110 - 200 * x.double().abs()).to(x.dtype)


def _far_from_zero(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Around 1000, nearer where the dtype would not tell x apart there.

    E[x²] − E[x]² shows in float32, a mean that is rounded to 16 bits there.
    """
    return (min(1000.0, 1.6 / torch.finfo(x.dtype).eps) + x.double()).to(x.dtype)


def _at_the_end(value: float) -> Fill:
    """The last element along each dim is the value, of either sign: it decides a sum, a maximum or a minimum."""

    def fill(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        out = x.clone()
        signs = torch.ones(x.shape, dtype=x.dtype, device=x.device)
        signs.view(-1)[1::2] = -1
        for dim in range(x.dim()):
            if x.shape[dim] > 1:
                out.select(dim, -1).copy_(value * signs.select(dim, 0))
        return out

    return fill


LARGE_AT_THE_END = "large at the end"
FAR_LARGER_AT_THE_END = "far larger at the end"

VALUES: dict[str, Fill] = {
    LARGE: _large,
    "moderately large": _moderately_large,
    "tiny and denormal": _tiny,
    "with ±inf": _sprinkle(float("inf"), float("-inf")),
    "with NaN": _sprinkle(float("nan")),
    "rows of -inf": _minus_infinite_rows,
    "all equal": _equal,
    "all zero": _zeros,
    "alternating signs": _alternating,
    "one outlier": _outlier,
    "large negative": _large_negative,
    "far from 0": _far_from_zero,
    LARGE_AT_THE_END: _at_the_end(30),
    # exp of the difference from what comes before overflows in float32: a maximum of the first block does not do
    FAR_LARGER_AT_THE_END: _at_the_end(200),
}


# Values of index inputs: always valid.


def _ends(x: torch.Tensor, below: int, sentinel: int | None) -> torch.Tensor:
    flat = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    return torch.where(flat % 2 == 0, 0, max(0, below - 1))


def _last_index(x: torch.Tensor, below: int, sentinel: int | None) -> torch.Tensor:
    return torch.full_like(x, max(0, below - 1))


def _only_sentinels(x: torch.Tensor, below: int, sentinel: int | None) -> torch.Tensor:
    return torch.full_like(x, sentinel if sentinel is not None else 0)


def _no_sentinel(x: torch.Tensor, below: int, sentinel: int | None) -> torch.Tensor:
    return x if sentinel is None else torch.where(x == sentinel, 0, x)


IndexFill = Callable[[torch.Tensor, int, "int | None"], torch.Tensor]  # indices, their upper bound, the sentinel

INDICES: dict[str, IndexFill] = {
    "first and last": _ends,
    "one and the same": _last_index,
    "only sentinels": _only_sentinels,
    "no sentinel": _no_sentinel,
}


# What an input's declaration allows.


def special_values(arg: Arg) -> tuple[str, ...]:
    """The special values that an input may be tried with: only those that its declaration allows.

    None for an input whose values an author's function makes: nothing else is known to be allowed.
    """
    if arg.is_index:
        return tuple(INDICES)
    if arg.values is None:
        return tuple(VALUES) if arg.is_float else ()
    return arg.values.special_values if isinstance(arg.values, ValueKind) else ()


def fills_of(arg: Arg, values: str) -> list[Fill]:
    """The functions that make an input's special values from its ordinary ones, to be applied in this order."""
    kind = arg.values if isinstance(arg.values, ValueKind) else None
    if kind is not None and values in kind.own:
        return [kind.own[values]]
    return [VALUES[values], *([kind.admit] if kind is not None and kind.admit is not None else [])]
