"""What an op's author describes: its tensors (`kl.tensor`, `kl.index`, `kl.optional`) and its cost (`kl.Cost`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from kernellab.base.errors import UserError
from kernellab.declaration.case import ELLIPSIS
from kernellab.declaration.documents import CostJson


@dataclass(frozen=True)
class Arg:
    """One tensor parameter: the names of its dims, its values, and whether it may be left out."""

    dims: tuple[str, ...]
    below: str | int | None = None  # not None: integers in [0, below)
    sentinel: str | int | None = None  # a number, or the option that holds it: may occur among the indices
    optional: bool = False

    @property
    def is_index(self) -> bool:
        return self.below is not None


def tensor(dims: str) -> Arg:
    """A floating-point tensor, `kl.tensor("M V")`; a leading `...` stands for any number of dims."""
    return Arg(_parse_dims(dims))


def index(dims: str, *, below: str | int | None = None, sentinel: str | int | None = None) -> Arg:
    """An int64 tensor of indices below a dim or a number. Some of them are replaced by `sentinel`."""
    if isinstance(below, bool) or not isinstance(below, (str, int)) or (isinstance(below, int) and below < 1):
        problem = "below= is missing" if below is None else f"below={below!r} is neither a dim nor a size"
        raise UserError(f"kl.index({dims!r}): {problem}: write kl.index({dims!r}, below='V')")
    if isinstance(sentinel, bool) or not isinstance(sentinel, (str, int, type(None))):
        raise UserError(f"kl.index({dims!r}): sentinel={sentinel!r}: write an integer or an option's name")
    return Arg(_parse_dims(dims), below, sentinel)


def optional(arg: Arg) -> Arg:
    """A tensor that may be None. Whether it is given is a yes/no option of the same name."""
    if not isinstance(arg, Arg):
        raise UserError(f"kl.optional({arg!r}): write which tensor may be left out, kl.optional(kl.tensor('N'))")
    return replace(arg, optional=True)


def _parse_dims(text: str) -> tuple[str, ...]:
    if not isinstance(text, str):
        raise UserError(f"{text!r} is not a list of dim names: write them in a string, for example 'M V'")
    names = tuple(text.split())
    if ELLIPSIS in names[1:]:
        raise UserError(f"{text!r}: the dims that `...` stands for come first: write '... N'")
    for name in names:
        if name != ELLIPSIS and not name.isidentifier():
            raise UserError(f"{text!r} is not a list of dim names: separate them by spaces, for example 'M V'")
    return names


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
