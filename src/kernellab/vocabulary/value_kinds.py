"""What the numbers of an input look like: the ready-made kinds for `values=`, from `kl.positive` to `kl.angle_table`.

Every kind is a function `(shape, dtype, device, generator) -> tensor`, as an author may write one. It also says which
special values (`kernellab.trials.values`) it allows, so that trials stay inside what the op promises to compute.

The functions that make values are also copied, as text, into scripts that reproduce a failure. They may use torch,
imported modules, each other and constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from kernellab.base.errors import UserError

Fill = Callable[[torch.Tensor, torch.Generator], torch.Tensor]

_ANGLES = ("cos", "sin")
_REPEATS = ("halves", "pairs", None)


@dataclass(frozen=True, eq=False)
class ValueKind:
    """`ordinary` makes the values from a tensor drawn from N(0, 1)."""

    expression: str  # as an author writes it
    ordinary: Fill
    allows: tuple[str, ...] = ()  # special values that every kind of input has
    own: Mapping[str, Fill] = field(default_factory=dict)  # special values of this kind alone, made from ordinary ones
    admit: Fill | None = None  # turns special values into allowed ones
    rows_belong_together: bool = False  # another order or choice of the elements of a row is not allowed
    source: str = ""  # inputs with the same source are made from the same numbers

    @property
    def __name__(self) -> str:
        """As of any function: `positive`."""
        return self.expression.removeprefix("kl.").partition("(")[0]

    @property
    def special_values(self) -> tuple[str, ...]:
        return (*self.allows, *self.own)

    def __call__(
        self, shape: Sequence[int], dtype: torch.dtype, device: torch.device, generator: torch.Generator
    ) -> torch.Tensor:
        return self.ordinary(self.draw(shape, dtype, device, generator), generator)

    def draw(
        self, shape: Sequence[int], dtype: torch.dtype, device: torch.device, generator: torch.Generator
    ) -> torch.Tensor:
        """What `ordinary` is given: zeros where it takes its numbers from the generator alone."""
        if self.source:
            return torch.zeros(shape, dtype=dtype, device=device)
        return torch.randn(shape, generator=generator, dtype=dtype, device=device)


def _exponential(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return x.double().exp().to(x.dtype)


def _near_one(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return (x.double() / 4).exp().to(x.dtype)


def _over_root_of_width(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return (x.double() / math.sqrt(max(1, x.shape[-1] if x.dim() else 1))).to(x.dtype)


def _magnitude(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return x.abs()


def _softmax(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return x.double().softmax(-1).to(x.dtype)


def _log_softmax(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return x.double().log_softmax(-1).to(x.dtype)


def _sum_to_one(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return (x.double() / x.double().sum(-1, keepdim=True)).to(x.dtype) if x.dim() else torch.ones_like(x)


def _one_hot(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """All of a row's probability lies on one element: 0 and 1 exactly."""
    width = x.shape[-1] if x.dim() else 1
    places = torch.arange(x.numel() // max(1, width), device=x.device) % max(1, width)
    columns = torch.arange(width, device=x.device)
    return (columns == places[:, None]).to(x.dtype).reshape(x.shape)


def _within(low: float, high: float) -> Fill:
    def fill(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        share: torch.Tensor = torch.special.ndtr(x.double())
        return (low + (high - low) * share).clamp(low, high).to(x.dtype)

    return fill


def _clamped(low: float, high: float) -> Fill:
    def fill(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return x.double().clamp(low, high).to(x.dtype)

    return fill


def _ends(low: float, high: float) -> Fill:
    def fill(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        at_low = torch.arange(x.numel(), device=x.device).reshape(x.shape) % 2 == 0
        return torch.where(at_low, low, high).to(x.dtype)

    return fill


def _angles(function: str, repeat: str | None) -> Fill:
    def fill(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        rows, width = (1, 1, *x.shape)[-2:]
        count = width if repeat is None else (width + 1) // 2
        first = torch.randint(0, 1000, (), generator=generator, device=x.device)
        positions = first + torch.arange(rows, dtype=torch.float64, device=x.device)
        frequencies = 1e4 ** -(torch.arange(count, dtype=torch.float64, device=x.device) / max(1, count))
        angles = positions[:, None] * frequencies
        if repeat == "halves":
            angles = torch.cat([angles, angles], -1)[:, :width]
        elif repeat == "pairs":
            angles = angles.repeat_interleave(2, -1)[:, :width]
        table = torch.cos(angles) if function == "cos" else torch.sin(angles)
        return table.to(x.dtype).reshape(x.shape[-2:]).expand(x.shape).contiguous()

    return fill


_MAGNITUDES = ("large to overflow", "moderately large", "tiny and denormal", "all equal", "one outlier")

# Not those that make all rows of a matrix alike: every row of x·Wᵀ would then be one number, repeated.
_OF_WEIGHTS = (
    *("large to overflow", "moderately large", "tiny and denormal", "with ±inf", "with NaN", "rows of -inf"),
    *("all zero", "one outlier", "large negative", "far from 0", "large at the end", "far larger at the end"),
)

positive = ValueKind("kl.positive", _exponential, _MAGNITUDES)
nonnegative = ValueKind("kl.nonnegative", _magnitude, (*_MAGNITUDES, "all zero"))
scale = ValueKind("kl.scale", _near_one, ("all equal",))
weights = ValueKind("kl.weights", _over_root_of_width, _OF_WEIGHTS)
probabilities = ValueKind(
    "kl.probabilities",
    _softmax,
    ("moderately large", "tiny and denormal", "all equal", "one outlier"),
    own={"one-hot rows": _one_hot},
    admit=_sum_to_one,
    rows_belong_together=True,
)
log_probabilities = ValueKind(
    "kl.log_probabilities",
    _log_softmax,
    ("moderately large", "all equal", "one outlier"),
    admit=_log_softmax,
    rows_belong_together=True,
)


def between(low: float, high: float) -> ValueKind:
    """Numbers spread evenly over a range, both ends included."""
    if not low <= high or low in (float("inf"), float("-inf")) or high == float("inf"):
        raise UserError(f"kl.between({low!r}, {high!r}): write two numbers, the smaller one first")
    low, high = float(low), float(high)
    return ValueKind(
        f"kl.between({low!r}, {high!r})",
        _within(low, high),
        ("all equal",),
        own={"at both ends": _ends(low, high)},
        admit=_clamped(low, high),
    )


def angle_table(function: str, *, repeat: str | None = "halves") -> ValueKind:
    """The cosines or sines of position times frequency, as for rotary embeddings: positions × angles.

    The angles stand twice in a row: `halves`, one half after the other; `pairs`, each beside itself; None: once.
    """
    if function not in _ANGLES or repeat not in _REPEATS:
        raise UserError(
            f"kl.angle_table({function!r}, repeat={repeat!r}): write 'cos' or 'sin', and repeat='halves', 'pairs' "
            "or None"
        )
    expression = f"kl.angle_table({function!r}, repeat={repeat!r})"
    # Cosines and sines of the same angles: they have one source.
    return ValueKind(expression, _angles(function, repeat), rows_belong_together=True, source="angle table")


def random_mask(
    shape: Sequence[int], dtype: torch.dtype, device: torch.device, generator: torch.Generator
) -> torch.Tensor:
    """True or False at random. The first element of a row is True: what a mask leaves empty is often not defined."""
    drawn = torch.rand(shape, generator=generator, device=device) < 0.5
    if drawn.dim():
        drawn[..., 0:1] = True
    return drawn.to(dtype)
