"""`kl.cases`: an op's default cases, as lists whose combinations are the cases."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kernellab.base.errors import UserError
from kernellab.declaration.case import DEVICES, parse_dtype


@dataclass(frozen=True)
class CaseLists:
    """Shapes, sizes of named dims, dtypes. None: not given."""

    shapes: Sequence[tuple[int, ...]] | None = None
    dims: Mapping[str, Sequence[int]] = field(default_factory=dict)
    dtypes: Sequence[str] | None = None

    def replaced_by(self, other: CaseLists) -> CaseLists:
        """The lists of `other`; this one's if it has none. Shapes bind every dim, so they replace sizes of dims."""
        dims = self.dims if other.shapes is None else {}
        return CaseLists(
            self.shapes if other.shapes is None else other.shapes,
            {**dims, **other.dims},
            self.dtypes if other.dtypes is None else other.dtypes,
        )

    def first(self) -> CaseLists:
        """Only the first entry of each list."""
        return CaseLists(
            None if self.shapes is None else self.shapes[:1],
            {name: sizes[:1] for name, sizes in self.dims.items()},
            None if self.dtypes is None else self.dtypes[:1],
        )


@dataclass(frozen=True)
class CaseTable:
    """An op's default cases, with replacements per device type."""

    lists: CaseLists
    per_device: Mapping[str, CaseLists]

    @property
    def dtypes(self) -> list[str]:
        """Every dtype that is named for any device."""
        tables = (self.lists, *self.per_device.values())
        return [dtype for table in tables for dtype in table.dtypes or ()]

    def on(self, device_type: str) -> CaseLists:
        return self.lists.replaced_by(self.per_device.get(device_type, CaseLists()))


def cases(**values: object) -> CaseTable:
    """Default cases: `shape=` or named dims, `dtype=`, and `cpu=`/`cuda=` dicts that replace any of them.

    >>> cases(shape=[(4096, 4096)], dtype=["float32"], cpu=dict(shape=[(512, 512)])).on("cpu").shapes
    [(512, 512)]
    """
    per_device = {}
    for device in DEVICES:
        if device in values:
            replacements = values.pop(device)
            if not isinstance(replacements, Mapping):
                raise UserError(f"{device}={replacements!r}: write {device}=dict(shape=…)")
            per_device[device] = _read_lists(replacements)
    return CaseTable(_read_lists(values), per_device)


def _read_lists(values: Mapping[str, object]) -> CaseLists:
    shapes: list[tuple[int, ...]] | None = None
    dtypes: list[str] | None = None
    dims: dict[str, list[int]] = {}
    for name, value in values.items():
        if name == "shape":
            shapes = [_read_shape(shape) for shape in _as_list([value] if isinstance(value, tuple) else value)]
        elif name == "dtype":
            dtypes = [parse_dtype(dtype) for dtype in _as_list(value)]
        else:
            dims[name] = [_read_size(name, size) for size in _as_list(value)]
    return CaseLists(shapes, dims, dtypes)


def _as_list(value: object) -> Iterable[object]:
    return list(value) if isinstance(value, (list, tuple, range)) else [value]


def _read_shape(shape: object) -> tuple[int, ...]:
    if not isinstance(shape, (list, tuple)):
        raise UserError(f"shape={shape!r}: write a list of shapes, for example shape=[(4096, 4096)]")
    return tuple(_read_size("shape", size) for size in shape)


def _read_size(name: str, size: object) -> int:
    try:
        number = operator.index(size)  # type: ignore[arg-type]  # raises TypeError unless it is an integer
    except TypeError:
        number = -1
    if number < 0:
        raise UserError(f"{name}: {size!r} is not a size: write an integer, 0 or more")
    return number
