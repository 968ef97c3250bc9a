"""What an op's author describes: its tensors (`kl.tensor`, `kl.index`, `kl.mask`, `kl.optional`) and its cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from kernellab.base.errors import UserError, nearest
from kernellab.declaration.case import DTYPES, ELLIPSIS, parse_dtype
from kernellab.declaration.documents import CostJson
from kernellab.vocabulary.dims import is_valid

INTEGER_DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64")


# Makes the values of an input: `(shape, dtype, device, generator) -> tensor`. `kl.positive` and its kin are such
# functions; of an author's own, only the result is checked.
ValueFunction: TypeAlias = Callable[..., object]  # type: ignore[explicit-any]


@dataclass(frozen=True)
class Arg:
    """One tensor parameter: its dims, what its values are, what is promised of it, whether it may be left out."""

    dims: tuple[str, ...]  # names, constants and derived sizes
    below: str | int | None = None  # not None: integers in [0, below)
    sentinel: str | int | None = None  # a number, or the option that holds it: may occur among the indices
    optional: bool = False
    values: ValueFunction | None = None  # None: from N(0, 1), or indices, or a random mask
    dtype: str = ""  # its own, where it does not have the case's
    gradient: bool = True  # False: nobody asks for its gradient
    contiguous: bool = False  # True: every caller passes it contiguous

    @property
    def is_index(self) -> bool:
        return self.below is not None

    @property
    def is_float(self) -> bool:
        return not self.is_index and (self.dtype or DTYPES[0]) in DTYPES

    @property
    def takes_gradient(self) -> bool:
        return self.is_float and self.gradient


def tensor(
    dims: str,
    *,
    values: ValueFunction | None = None,
    dtype: str | None = None,
    gradient: bool = True,
    contiguous: bool = False,
) -> Arg:
    """A tensor, `kl.tensor("M V")`; a leading `...` stands for any number of dims, `1` and `D/2` for themselves.

    `values` says what its numbers look like (`kl.positive`, or a function), `dtype` which dtype it has where it is not
    the case's. `gradient=False`: nobody asks for its gradient; `contiguous=True`: it is always contiguous.
    """
    label = f"kl.tensor({dims!r})"
    name = _read_dtype(label, dtype)
    if values is None and name not in ("", *DTYPES):
        raise UserError(f"{label}: a tensor of {name} has no usual values: write values=, a function that makes them")
    _require_values(label, values)
    return Arg(_parse_dims(dims), values=values, dtype=name, gradient=bool(gradient), contiguous=bool(contiguous))


def mask(dims: str, *, values: ValueFunction | None = None, contiguous: bool = False) -> Arg:
    """A tensor of bool, at random; the first element of every row is True."""
    _require_values(f"kl.mask({dims!r})", values)
    return Arg(_parse_dims(dims), values=values, dtype="bool", gradient=False, contiguous=bool(contiguous))


def index(
    dims: str, *, below: str | int | None = None, sentinel: str | int | None = None, contiguous: bool = False
) -> Arg:
    """An int64 tensor of indices below a dim or a number. Some of them are replaced by `sentinel`."""
    bound = isinstance(below, str) and is_valid(below) if not isinstance(below, int) else below >= 1
    if isinstance(below, bool) or not bound:
        problem = "below= is missing" if below is None else f"below={below!r} is neither a dim nor a size"
        raise UserError(f"kl.index({dims!r}): {problem}: write kl.index({dims!r}, below='V')")
    if isinstance(sentinel, bool) or not isinstance(sentinel, (str, int, type(None))):
        raise UserError(f"kl.index({dims!r}): sentinel={sentinel!r}: write an integer or an option's name")
    return Arg(_parse_dims(dims), below, sentinel, contiguous=bool(contiguous))


def optional(arg: Arg) -> Arg:
    """A tensor that may be None. Whether it is given is a yes/no option of the same name."""
    if not isinstance(arg, Arg):
        raise UserError(f"kl.optional({arg!r}): write which tensor may be left out, kl.optional(kl.tensor('N'))")
    return replace(arg, optional=True)


def _parse_dims(text: str) -> tuple[str, ...]:
    if not isinstance(text, str):
        raise UserError(f"{text!r} is not a list of dim names: write them in a string, for example 'M V'")
    dims = tuple(text.split())
    if ELLIPSIS in dims[1:]:
        raise UserError(f"{text!r}: the dims that `...` stands for come first: write '... N'")
    for dim in dims:
        if dim != ELLIPSIS and not is_valid(dim):
            raise UserError(
                f"{text!r} is not a list of dim names: separate them by spaces, for example 'M V'. A constant "
                "is written '1 S D', a derived size without spaces, 'D/2'"
            )
    return dims


def _read_dtype(label: str, dtype: object) -> str:
    if dtype is None:
        return ""
    name = str(dtype).removeprefix("torch.")
    if name in INTEGER_DTYPES:
        return name
    try:
        return parse_dtype(name)
    except UserError:
        raise UserError(f"{label}: no dtype {name!r}: {nearest(name, [*DTYPES, *INTEGER_DTYPES])}") from None


def _require_values(label: str, values: object) -> None:
    if values is not None and not callable(values):
        raise UserError(
            f"{label}: values={values!r}: write kl.positive, kl.probabilities, …, or a function "
            "(shape, dtype, device, generator) -> tensor"
        )


class HasBytes(Protocol):
    """The methods of a tensor that give its size in bytes."""

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
