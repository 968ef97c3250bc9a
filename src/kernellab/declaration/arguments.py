"""Descriptions of an op's tensors: `kl.tensor`, `kl.index` and `kl.optional`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernellab.base.errors import UserError
from kernellab.declaration.case import ELLIPSIS


@dataclass(frozen=True)
class Arg:
    """One tensor parameter: its dims by name, what its values are, whether it may be left out."""

    dims: tuple[str, ...]
    below: str | int | None = None  # not None: integers in [0, below)
    sentinel: str | int | None = None  # an option's name or a number that may occur among them
    optional: bool = False

    @property
    def is_index(self) -> bool:
        return self.below is not None


def tensor(dims: str) -> Arg:
    """A floating-point tensor, `kl.tensor("M V")`; a leading `...` stands for any number of dims."""
    return Arg(_parse_dims(dims))


def index(dims: str, *, below: str | int | None = None, sentinel: str | int | None = None) -> Arg:
    """An int64 tensor of valid indices below a dim or a number; `sentinel` is mixed in."""
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
