"""What an op's tensors look like, and the fewest bytes and operations it takes: descriptions, no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernellab.case import ELLIPSIS
from kernellab.errors import UserError


@dataclass(frozen=True)
class Arg:
    """One tensor parameter: its dims by name, what its values are, whether it may be left out."""

    dims: tuple[str, ...]
    below: str | int | None = None  # not None: integers in [0, below)
    sentinel: str | int | None = None  # an option or a number that may stand among them
    optional: bool = False

    @property
    def is_index(self) -> bool:
        return self.below is not None


def tensor(dims: str) -> Arg:
    """A floating-point tensor, `kl.tensor("M V")`; a leading `...` stands for any number of dims."""
    return Arg(_dims(dims))


def index(dims: str, *, below: str | int, sentinel: str | int | None = None) -> Arg:
    """An int64 tensor of valid indices below a dim or a number; `sentinel` is mixed in."""
    return Arg(_dims(dims), below, sentinel)


def optional(arg: Arg) -> Arg:
    """A tensor that may be None. Whether it is given is a yes/no option of the same name."""
    return Arg(arg.dims, arg.below, arg.sentinel, optional=True)


def _dims(text: str) -> tuple[str, ...]:
    names = tuple(text.split())
    for at, name in enumerate(names):
        if name == ELLIPSIS and at == 0:
            continue
        if not name.isidentifier():
            raise UserError(f"{text!r} is not a list of dim names: write names apart, for example 'M V'")
    return names


@dataclass(frozen=True)
class Cost:
    """The fewest bytes an op must move, and its arithmetic by unit.

    `read` and `write` hold tensors or numbers of bytes. `flops` is keyed by the unit that does the
    work: `matmul` for multiply-adds a tensor core can take, `fp32` for ordinary arithmetic.
    """

    read: Sequence[Any] = ()
    write: Sequence[Any] = ()
    flops: Mapping[str, int] = field(default_factory=dict)

    @property
    def bytes_read(self) -> int:
        return sum(map(_bytes, self.read))

    @property
    def bytes_written(self) -> int:
        return sum(map(_bytes, self.write))

    def to_json(self) -> dict[str, Any]:
        return {
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "flops": dict(self.flops),
        }


def _bytes(thing: Any) -> int:
    if thing is None:
        return 0
    return thing if isinstance(thing, int) else int(thing.numel()) * int(thing.element_size())
