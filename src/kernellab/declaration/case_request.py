"""The cases that a user requests, and how sizes and options are written on a command line."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernellab.base.errors import UserError, nearest
from kernellab.declaration.documents import RequestJson

_MOST_SIZES = 100_000


@dataclass(frozen=True)
class CaseRequest:
    """The cases that a command line requests. Empty fields mean the op's own defaults."""

    shapes: Sequence[Sequence[int]] = ()
    dtypes: Sequence[str] = ()
    dims: Mapping[str, Sequence[int]] = field(default_factory=dict)
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    quick: bool = False

    def to_json(self) -> RequestJson:
        return {
            "shapes": [list(s) for s in self.shapes],
            "dtypes": list(self.dtypes),
            "dims": {k: list(v) for k, v in self.dims.items()},
            "options": {k: list(v) for k, v in self.options.items()},
            "quick": self.quick,
        }


def parse_shapes(text: str) -> list[tuple[int, ...]]:
    """`4096x4096,128x1024` → [(4096, 4096), (128, 1024)]."""
    shapes = []
    for part in text.split(","):
        try:
            shape = tuple(int(n) for n in part.strip().lower().replace("×", "x").split("x"))
        except ValueError:
            shape = (-1,)
        if min(shape) < 0:
            raise UserError(f"cannot read the shape {part!r}: write sizes joined by x, for example 4096x4096")
        shapes.append(shape)
    return shapes


def parse_sizes(name: str, text: str) -> list[int]:
    """`256,512`, `256:12672:128` (a range, end included) or `1024:65536:x2` (powers)."""
    sizes: list[int] = []
    for part in text.split(","):
        try:
            sizes += _parse_range(part)
        except ValueError:
            raise UserError(
                f"cannot read --{name} {part!r}: write a size, a range 256:4096:128 or powers 1024:65536:x2"
            ) from None
        except OverflowError:
            raise UserError(f"--{name} {part}: more than {_MOST_SIZES} sizes") from None
    if any(size < 0 for size in sizes):
        raise UserError(f"cannot read --{name} {text!r}: sizes are not negative")
    return sizes


def _parse_range(text: str) -> list[int]:
    """Raises ValueError if the text is not a range, OverflowError if it has too many sizes."""
    first, *rest = text.strip().split(":")
    if not rest:
        return [int(first)]
    if len(rest) > 2:
        raise ValueError
    size, last, step = int(first), int(rest[0]), rest[1] if len(rest) == 2 else "1"
    if size < 0 or last < size:
        raise ValueError
    if not step.startswith("x"):
        if int(step) < 1:
            raise ValueError
        if (last - size) // int(step) > _MOST_SIZES:
            raise OverflowError
        return list(range(size, last + 1, int(step)))
    factor = int(step[1:])
    if factor < 2 or size < 1:
        raise ValueError
    sizes = []
    while size <= last:
        sizes.append(size)
        size *= factor
    return sizes


def parse_option(name: str, text: str, declared: Sequence[object]) -> object:
    """The declared value that is written as `text`. Unless all of them are strings or booleans, any literal will do."""
    for value in declared:
        if str(value).lower() == text.lower():
            return value
    if not all(isinstance(value, (str, bool)) for value in declared):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            pass
    raise UserError(f"option {name} cannot be {text!r}: {nearest(text, map(str, declared))}")
