"""Cases: the points of a sweep, and how a request becomes a list of them. No torch here.

A case binds every named dim of an op to a size, picks a dtype and fixes the options.
The dim written `...` stands for any number of leading dims; it binds a tuple.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
import json
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernellab.base.errors import UserError, nearest
from kernellab.declaration.documents import CaseJson, RequestJson

ELLIPSIS = "..."
DTYPES = ("float32", "float16", "bfloat16", "float64")
DTYPE_SHORT = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64", "half": "float16"}
DEVICES = ("cpu", "cuda")

Size = int | tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One point: sizes, dtype, options, layout, device type. Dims and options read as attributes."""

    dims: Mapping[str, Size]
    dtype: str
    options: Mapping[str, Any] = field(default_factory=dict)
    layout: str = "contiguous"
    device: str = "cpu"

    def __getattr__(self, name: str) -> Any:
        for table in ("dims", "options"):
            values = self.__dict__.get(table, {})
            if name in values:
                return values[name]
        raise AttributeError(f"the case has no dim or option {name!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of all dims in order, `...` spelled out."""
        return tuple(itertools.chain.from_iterable(s if isinstance(s, tuple) else (s,) for s in self.dims.values()))

    @property
    def contiguous(self) -> bool:
        """Whether every input is: what a way's `supports=` may ask."""
        return self.layout == "contiguous"

    @property
    def size_label(self) -> str:
        if ELLIPSIS in self.dims:
            return "×".join(map(str, self.shape)) or "scalar"
        return " ".join(f"{name}={size}" for name, size in self.dims.items())

    @property
    def label(self) -> str:
        options = [f"{k}={v}" for k, v in self.options.items()]
        layout = [] if self.layout == "contiguous" else [self.layout]
        return " · ".join([self.size_label, self.dtype, *options, *layout])

    def to_json(self) -> CaseJson:
        dims = {name: list(s) if isinstance(s, tuple) else s for name, s in self.dims.items()}
        return {
            "dims": dims,
            "dtype": self.dtype,
            "options": {name: jsonable(value) for name, value in self.options.items()},
            "layout": self.layout,
            "device": self.device,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Case:
        dims = {name: tuple(s) if isinstance(s, list) else s for name, s in data["dims"].items()}
        return cls(dims, data["dtype"], dict(data["options"]), data["layout"], data["device"])

    @property
    def key(self) -> str:
        """A stable identity, the same in every process."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))

    def with_(self, **changes: Any) -> Case:
        """This case with some fields replaced."""
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True)
class CaseTable:
    """An op's default cases: lists to be crossed, with replacements per device."""

    values: Mapping[str, Sequence[Any]]
    per_device: Mapping[str, Mapping[str, Sequence[Any]]]

    @property
    def dtypes(self) -> list[str]:
        """Every dtype named, on any device."""
        tables = (self.values, *self.per_device.values())
        return [parse_dtype(t) for table in tables for t in table.get("dtype", ())]

    def on(self, device: str) -> dict[str, Sequence[Any]]:
        chosen = dict(self.values)
        special = self.per_device.get(device, {})
        if "shape" in special:  # a shape binds every dim, so it replaces sizes named one by one
            chosen = {k: v for k, v in chosen.items() if k == "dtype"}
        return {**chosen, **special}


def cases(**values: Any) -> CaseTable:
    """Default cases: `shape=` or named dims, `dtype=`, and `cpu=`/`cuda=` dicts replacing any of them.

    >>> cases(shape=[(4096, 4096)], dtype=["float32"], cpu=dict(shape=[(512, 512)])).on("cpu")["shape"]
    [(512, 512)]
    """
    per_device = {d: _lists(values.pop(d)) for d in DEVICES if d in values}
    return CaseTable(_lists(values), per_device)


def _lists(values: Mapping[str, Any]) -> dict[str, list[Any]]:
    lists = {}
    for name, value in values.items():
        if name == "shape" and isinstance(value, tuple):
            value = [value]
        lists[name] = list(value) if isinstance(value, (list, tuple, range)) else [value]
    for dtype in lists.get("dtype", ()):
        parse_dtype(dtype)
    for name, sizes in lists.items():
        if name != "dtype":
            lists[name] = [_whole(size) if name == "shape" else _size(name, size) for size in sizes]
    return lists


def _whole(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, (list, tuple)):
        raise UserError(f"shape={shape!r}: write a list of shapes, for example shape=[(4096, 4096)]")
    return tuple(_size("shape", size) for size in shape)


def _size(name: str, size: Any) -> int:
    try:
        if operator.index(size) >= 0:
            return operator.index(size)
    except TypeError:
        pass
    raise UserError(f"{name}: {size!r} is no size: write a whole number, 0 or more")


@dataclass(frozen=True)
class CaseRequest:
    """What the command line asked for. Empty fields mean the op's own defaults."""

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


def jsonable(value: Any) -> Any:
    """An option's value as JSON can carry it; what is no plain scalar goes by its repr."""
    plain = value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value))
    return value if plain else repr(value)


# How a person writes these on a command line ---------------------------------------------------------


def parse_dtype(text: str) -> str:
    dtype = DTYPE_SHORT.get(text, text) if isinstance(text, str) else str(text)
    if dtype not in DTYPES:
        raise UserError(f"no dtype {text!r}: {nearest(dtype, DTYPES)}")
    return dtype


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


_MOST_SIZES = 100_000


def parse_sizes(name: str, text: str) -> list[int]:
    """`256,512`, `256:12672:128` (a range, end included) or `1024:65536:x2` (powers)."""
    sizes: list[int] = []
    for part in text.split(","):
        pieces = part.strip().split(":")
        try:
            if len(pieces) == 1:
                sizes.append(int(pieces[0]))
                continue
            first, last = int(pieces[0]), int(pieces[1])
            step = pieces[2] if len(pieces) == 3 else "1"
            if len(pieces) > 3 or first < 0 or last < first:
                raise ValueError
            if step.startswith("x"):
                factor = int(step[1:])
                if factor < 2 or first < 1:
                    raise ValueError
                size = first
                while size <= last:
                    sizes.append(size)
                    size *= factor
            else:
                if int(step) < 1:
                    raise ValueError
                if (last - first) // int(step) > _MOST_SIZES:
                    raise UserError(f"--{name} {part}: more than {_MOST_SIZES} sizes")
                sizes.extend(range(first, last + 1, int(step)))
        except ValueError:
            raise UserError(
                f"cannot read --{name} {part!r}: write a size, a range 256:4096:128 or powers 1024:65536:x2"
            ) from None
    if any(size < 0 for size in sizes):
        raise UserError(f"cannot read --{name} {text!r}: sizes are not negative")
    return sizes


def parse_option(name: str, text: str, declared: Sequence[Any]) -> Any:
    """The declared value that reads like `text`; any literal where the declared values are not all names."""
    for value in declared:
        if str(value).lower() == text.lower():
            return value
    if not all(isinstance(value, (str, bool)) for value in declared):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            pass
    raise UserError(f"option {name} cannot be {text!r}: {nearest(text, map(str, declared))}")


# From a request to cases -------------------------------------------------------------------------------


def bind_shape(shape: Sequence[int], names: Sequence[str], needed: int) -> dict[str, Size]:
    """Bind sizes to dim names in order; `...` takes what is left over. The first `needed` must be bound."""
    names = list(names)
    if ELLIPSIS in names:
        at = names.index(ELLIPSIS)
        named = len(names) - 1
        spare = len(shape) - named
        if spare < 0:
            raise UserError(f"shape {_x(shape)} is too short: the op needs {' '.join(names)}")
        bound: dict[str, Size] = dict(zip(names[:at], shape[:at], strict=True))
        bound[ELLIPSIS] = tuple(shape[at : at + spare])
        bound.update(zip(names[at + 1 :], shape[at + spare :], strict=True))
        return bound
    if not needed <= len(shape) <= len(names):
        raise UserError(
            f"shape {_x(shape)} has {len(shape)} sizes, the op has the dims {' '.join(names[:needed])}"
            + (f" (and {' '.join(names[needed:])})" if len(names) > needed else "")
        )
    return dict(zip(names, shape, strict=False))


def _x(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape))
