"""The combinations of dims and of options that a request selects; `Op.expand` makes cases of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernellab.base.errors import UserError, nearest
from kernellab.declaration.case import ELLIPSIS, Size
from kernellab.declaration.case_request import CaseRequest, parse_option
from kernellab.declaration.case_table import CaseLists


@dataclass(frozen=True)
class Dims:
    """The dims of an op: the free ones, then those that default to a number or to another dim's size."""

    op: str
    names: tuple[str, ...]
    defaults: Mapping[str, str | int]

    @property
    def free(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in self.defaults)

    def expand(self, request: CaseRequest, lists: CaseLists) -> Iterator[dict[str, Size]]:
        """Every combination of sizes that the request selects, once each. `lists` holds the op's defaults."""
        named = {} if request.shapes else lists.dims
        self._refuse_unknown(request.dims, named)
        shapes = request.shapes or lists.shapes or ()
        bases = [bind_shape(shape, self.names, len(self.free)) for shape in shapes] or [{}]
        swept = {**named, **request.dims}
        seen = set()
        for base, sizes in itertools.product(bases, itertools.product(*swept.values())):
            bound = self._complete({**base, **dict(zip(swept, sizes, strict=True))})
            identity = tuple(bound.items())
            if identity not in seen:
                seen.add(identity)
                yield bound

    def _refuse_unknown(self, requested: Iterable[str], declared: Iterable[str]) -> None:
        for dim in requested:
            if dim not in self.names or dim == ELLIPSIS:
                dims = [d for d in self.names if d != ELLIPSIS]
                hint = f"its dims are {', '.join(dims)}" if dims else "its shape is given with --shape"
                raise UserError(f"op {self.op} has no dim {dim}: {hint}")
        for dim in declared:
            if dim not in self.names:
                raise UserError(f"op {self.op} has no dim {dim}, which its cases= name: {nearest(dim, self.names)}")

    def _complete(self, bound: Mapping[str, Size]) -> dict[str, Size]:
        """Add the dims that have defaults, and put all dims in order of declaration."""
        full = dict(bound)
        for dim, default in self.defaults.items():
            if dim not in full and (isinstance(default, int) or default in full):
                full[dim] = default if isinstance(default, int) else full[default]
        missing = [d for d in self.names if d not in full]
        if missing:
            flags = "--shape" if ELLIPSIS in missing else f"--shape or --{missing[0]}"
            raise UserError(f"op {self.op} has no size for {' '.join(missing)}: give {flags}")
        return {d: full[d] for d in self.names}


def choose_options(
    op: str, declared: Mapping[str, Sequence[object]], request: CaseRequest
) -> Iterator[dict[str, object]]:
    """Every combination of the requested option values. An option that is not requested has its first value."""
    for name in request.options:
        if name not in declared:
            raise UserError(f"op {op} has no option {name}: {nearest(name, declared)}")
    lists: list[Sequence[object]] = []
    for name, values in declared.items():
        texts = request.options.get(name)
        lists.append([parse_option(name, text, values) for text in texts] if texts else values[:1])
    for choice in itertools.product(*lists):
        yield dict(zip(declared, choice, strict=True))


def bind_shape(shape: Sequence[int], names: Sequence[str], needed: int) -> dict[str, Size]:
    """Bind sizes to dim names in order; `...` takes the remaining ones. The first `needed` names must be bound."""
    names = list(names)
    if ELLIPSIS in names:
        at = names.index(ELLIPSIS)
        remaining = len(shape) - (len(names) - 1)
        if remaining < 0:
            raise UserError(f"shape {_join(shape)} is too short: the op needs {' '.join(names)}")
        bound: dict[str, Size] = dict(zip(names[:at], shape[:at], strict=True))
        bound[ELLIPSIS] = tuple(shape[at : at + remaining])
        bound.update(zip(names[at + 1 :], shape[at + remaining :], strict=True))
        return bound
    if not needed <= len(shape) <= len(names):
        raise UserError(
            f"shape {_join(shape)} has {len(shape)} sizes, the op has the dims {' '.join(names[:needed])}"
            + (f" (and {' '.join(names[needed:])})" if len(names) > needed else "")
        )
    return dict(zip(names, shape, strict=False))


def _join(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape))
