"""The base cases that every trial of a battery varies in one thing, and what the kinds of trials ask of them.

There are two bases because kernels take different paths: the author's sizes, made small, and the same with every dim
one smaller. Optional inputs are given in both; fewer trials are made without them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kernellab.base.errors import UserError
from kernellab.declaration.case import ELLIPSIS, Case, Size
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.op import Op
from kernellab.trials.domain import is_defined
from kernellab.trials.layouts import allows_layout
from kernellab.trials.small_cases import largest_input, shrink_to
from kernellab.trials.values import VALUES, special_values

_BASE_ELEMENTS, _SLOW_BASE_ELEMENTS = 1 << 14, 1 << 10  # of the base's largest input
_SIZED_ELEMENTS = 1 << 16  # of a trial that varies a size, where the other dims can be made smaller
_PRECISION = {"float64": 3, "float32": 2, "float16": 1, "bfloat16": 0}


@dataclass(frozen=True)
class OptionalInputs:
    """The base with other optional inputs given, and the inputs to vary there."""

    case: Case
    varied: Sequence[str]


class Bases:
    """The base cases of an op on one device."""

    def __init__(
        self, op: Op, device: str, *, dtypes: Sequence[str] = (), quick: bool = False, max_elements: int | None = None
    ) -> None:
        """`max_elements`: of an input, where calls are slow (Triton's interpreter); fewer trials are made there."""
        self.op, self.quick, self.max_elements = op, quick, max_elements
        self.dtypes = [dtype for dtype in op.dtypes if not dtypes or dtype in dtypes] or list(dtypes)
        self.regular = self._regular(device)
        self.odd = self._one_smaller(self.regular)
        self.optional_inputs = self._other_optional_inputs()

    @property
    def slow(self) -> bool:
        return self.max_elements is not None

    @property
    def both(self) -> tuple[Case, Case]:
        return self.regular, self.odd

    # The cases -----------------------------------------------------------------------------------------

    def _regular(self, device: str) -> Case:
        try:
            declared = self.op.expand(CaseRequest(quick=True), device)[0]
        except (UserError, IndexError):  # no declared sizes at all
            sizes: dict[str, Size] = dict.fromkeys(self.op.dims, 64)
            if ELLIPSIS in sizes:
                sizes[ELLIPSIS] = (4,) if len(sizes) > 1 else (4, 64)
            declared = Case(sizes, self.dtypes[0], device=device)
        options = {name: values[0] for name, values in self.op.all_options().items()}
        case = self._give(declared.with_(dtype=self.dtypes[0], options=options), self.op.presence_options)
        return shrink_to(self.op, case, _SLOW_BASE_ELEMENTS if self.slow else _BASE_ELEMENTS)

    def _one_smaller(self, case: Case) -> Case:
        """Every dim one smaller: odd where the author's sizes are even."""
        odd = case
        for dim, size in case.dims.items():
            smaller: Size = tuple(n - (n > 2) for n in size) if isinstance(size, tuple) else size - (size > 2)
            changed = self.op.resize(odd, {dim: smaller})
            odd = changed if is_defined(self.op, changed) else odd
        return odd

    def _give(self, case: Case, names: Iterable[str]) -> Case:
        """The case with these optional inputs given, except those that `where=` excludes."""
        for name in names:
            changed = case.with_(options={**case.options, name: True})
            case = changed if is_defined(self.op, changed) else case
        return case

    def _other_optional_inputs(self) -> list[OptionalInputs]:
        """The base without optional inputs, then with each optional input that the base lacks."""
        base = self.regular
        bare = base.with_(options={**base.options, **dict.fromkeys(self.op.presence_options, False)})
        variants = [OptionalInputs(bare, self.float_inputs(bare))] if bare.options != base.options else []
        for name in self.op.presence_options:
            if not base.options[name] and (case := self._give(bare, [name])).options[name]:
                variants.append(OptionalInputs(case, [name]))
        return variants

    def with_four_dims(self) -> Case:
        """The regular base with enough leading dims for four in all, where the op takes any number of them."""
        lead = (2, 3, 2) if len(self.op.dims) > 1 else (2, 3, 5, 16)
        return self.op.resize(self.regular, {ELLIPSIS: lead}) if ELLIPSIS in self.op.dims else self.regular

    def resize(self, dim: str, size: Size) -> Case:
        """The odd base with one dim of another size; other dims are made smaller where it would become too large."""
        bound = (size,) if dim == ELLIPSIS and isinstance(size, int) else size
        case = self.odd.with_(dims={**self.odd.dims, dim: bound})  # this dim alone: no other dim follows it
        while largest_input(self.op, case) > min(self.max_elements or _SIZED_ELEMENTS, _SIZED_ELEMENTS):
            others = {d: math.prod(n) if isinstance(n, tuple) else n for d, n in case.dims.items() if d != dim}
            widest = max(others, key=lambda d: others[d], default=None)
            if widest is None or others[widest] <= 2:
                return case
            smaller: Size = (2,) if widest == ELLIPSIS else max(2, others[widest] // 4)
            case = case.with_(dims={**case.dims, widest: smaller})
        return case

    # The inputs ----------------------------------------------------------------------------------------

    def float_inputs(self, case: Case) -> list[str]:
        return [name for name in self._given_inputs(case) if self.op.args[name].is_float]

    def index_inputs(self, case: Case) -> list[str]:
        return [name for name in self._given_inputs(case) if self.op.args[name].is_index]

    def other_inputs(self, case: Case) -> list[str]:
        """Indices, masks and other integers."""
        return [name for name in self._given_inputs(case) if not self.op.args[name].is_float]

    def _given_inputs(self, case: Case) -> list[str]:
        return [name for name, arg in self.op.args.items() if not arg.optional or case.options[name]]

    def inputs_fitting(self, layout: str, names: Iterable[str], case: Case) -> list[str]:
        """Those of the inputs that have enough dims for the layout, and whose declaration allows it."""
        args = {name: self.op.args[name] for name in names}
        return [name for name, arg in args.items() if allows_layout(arg, layout, len(self.op.sizes(arg, case)))]

    def each_then_all(self, case: Case, layout: str | None = None, values: str | None = None) -> Iterator[list[str]]:
        """Each float input alone, then all of them together; with a layout or special values, those that allow it.

        Special values of one kind of input lie at the border of its domain: several together often lie beyond it.
        """
        names = self.float_inputs(case)
        if layout is not None:
            names = self.inputs_fitting(layout, names, case)
        if values is not None:
            names = self.inputs_allowing(values, names)
        yield from ([name] for name in names)
        if len(names) > 1 and (values is None or values in VALUES):
            yield names

    def inputs_allowing(self, values: str, names: Iterable[str]) -> list[str]:
        """Those of the inputs whose declaration allows these special values."""
        return [name for name in names if values in special_values(self.op.args[name])]

    def special_values(self, case: Case) -> list[str]:
        """The special values that any of the float inputs allows."""
        allowed = (values for name in self.float_inputs(case) for values in special_values(self.op.args[name]))
        return list(dict.fromkeys(allowed))

    # Dtypes and sizes ----------------------------------------------------------------------------------

    def extreme_dtypes(self) -> list[str]:
        """The widest common dtype and the narrowest: they differ in vector width and in rounding."""
        ordered = sorted((t for t in self.dtypes if t != "float64"), key=lambda t: -_PRECISION[t])
        ordered = ordered or self.dtypes
        return list(dict.fromkeys((ordered[0],) if self.quick else (ordered[0], ordered[-1])))

    def narrowest_dtype(self) -> str:
        return min(self.dtypes, key=lambda dtype: _PRECISION[dtype])

    def leading_sizes(self, sizes: Sequence[int]) -> list[int]:
        """The sizes to try for a leading dim: it repeats the op, so that large sizes take time and show little."""
        return [n for n in sizes if n < (64 if self.quick or self.slow else 1024)]
