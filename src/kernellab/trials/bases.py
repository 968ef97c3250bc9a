"""The base cases that every trial of a battery varies in one thing, and what the kinds of trials ask of them.

There are two bases because kernels take different paths: the author's sizes, made small, and the same with every dim
one smaller. Optional inputs are given in both; fewer trials are made without them. Both bases, and everything that
varies them, are looked for inside the domain: where an implementation takes multiples of 128 alone, both bases are
multiples of 128.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernellab.base.errors import UserError
from kernellab.declaration.case import ELLIPSIS, Case, Size
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.op import Op
from kernellab.trials import sizes
from kernellab.trials.choosing.small_cases import Axis, axes, largest_input
from kernellab.trials.domain import Domain
from kernellab.trials.layouts import allows_layout
from kernellab.trials.values import VALUES, special_values

_BASE_ELEMENTS, _SLOW_BASE_ELEMENTS = 1 << 14, 1 << 10  # of the base's largest input
_ODD_ELEMENTS = 1 << 17  # of the odd base, where its sizes cannot be one smaller
_MANY_ROWS = (1 << 16, (1 << 16) + 1)
_SIZED_ELEMENTS = 1 << 16  # of a trial that varies a size, where the other dims can be made smaller
_DECLARED_ELEMENTS = 1 << 20  # of a declared case; a larger one is made smaller
_ELEMENTS = 1 << 22  # of an input of any trial, except those of kind large
_MOST_ELEMENTS, _MOST_SLOW_ELEMENTS = 1 << 24, 1 << 18  # where the domain has nothing smaller
_MOST_DECLARED, _MOST_CHOICES = 12, 256  # declared sizes; dtypes and options among which a base is looked for
_OTHER_CASES = 200  # of sizes that are not declared, for a dtype or an option
_LIMITED_SIZES, _FEW_LIMITED_SIZES = 12, 4  # further sizes of a dim that the domain limits
_PRECISION = {"float64": 3, "float32": 2, "float16": 1, "bfloat16": 0}


@dataclass(frozen=True)
class OptionalInputs:
    """The base with other optional inputs given, and the inputs to vary there."""

    case: Case
    varied: Sequence[str]


class Bases:
    """The base cases of an op on one device, inside a domain."""

    def __init__(
        self,
        domain: Domain,
        device: str,
        *,
        dtypes: Sequence[str] = (),
        quick: bool = False,
        max_elements: int | None = None,
    ) -> None:
        """`max_elements`: of an input, where calls are slow (Triton's interpreter); fewer trials are made there."""
        self.domain, self.op, self.quick, self.slow = domain, domain.op, quick, max_elements is not None
        self._allowed = [dtype for dtype in self.op.dtypes if not dtypes or dtype in dtypes] or list(dtypes)
        self._declared = _declared_cases(self.op, device, self._allowed[0])
        self._pairs: dict[str, list[Case]] = {}
        first = self._first_inside([*self._declared, *self._other_sizes()]) or self._declared[0]
        self.regular = self._shrink(self._give(first, self.op.presence_options))
        usual, most = (max_elements, _MOST_SLOW_ELEMENTS) if max_elements is not None else (_ELEMENTS, _MOST_ELEMENTS)
        self.max_elements = max(usual, min(largest_input(self.op, self.regular), most))
        self.odd = self._odd(self.regular)
        self.dtypes = [dtype for dtype in self._allowed if self.pair(dtype=dtype)] or self._allowed
        self.optional_inputs = self._other_optional_inputs()

    # The cases -----------------------------------------------------------------------------------------

    @property
    def both(self) -> list[Case]:
        return [self.regular, self.odd]

    def pair(self, *, dtype: str | None = None, options: Mapping[str, object] | None = None) -> list[Case]:
        """Both bases with this dtype or these options. Where that is outside, with other sizes; none where none is."""
        key = f"{dtype} {options}"
        if key not in self._pairs:
            changed = [base.with_(dtype=dtype, options=options) for base in self.both]
            inside = [case for case in changed if self.domain.accepts(case)]
            if not inside and (first := self._first_with(dtype, options)) is not None:
                regular = self._shrink(first)
                inside = [regular, self._odd(regular)]
            self._pairs[key] = inside
        return self._pairs[key]

    def declared(self) -> Iterator[Case]:
        """The declared sizes, smaller where they are too large to be tried whole."""
        limit = min(self.max_elements, _DECLARED_ELEMENTS)
        for case in self._declared[: 1 if self.quick or self.slow else 3]:
            usual = case.with_(dtype=self.regular.dtype, options=self.regular.options)
            inside = usual if self.domain.accepts(usual) else self._first_inside([case])
            if inside is not None:
                yield sizes.shrink_inside(self.domain, inside, limit)

    def _first_with(self, dtype: str | None, options: Mapping[str, object] | None) -> Case | None:
        """A case inside with this dtype or these options: at known sizes, then at others with the usual options."""
        known = self._first_inside([*self.both, *self._declared], dtype, options)
        if known is not None:
            return known
        usual = options if options is not None else self.regular.options
        bare = {**usual, **dict.fromkeys(self.op.presence_options, False)}
        for case, wanted in itertools.product(itertools.islice(self._other_sizes(), _OTHER_CASES), (usual, bare)):
            candidate = case.with_(dtype=dtype or self.regular.dtype, options=wanted if options is None else options)
            if self.domain.accepts(candidate):
                return candidate
        return None

    def _first_inside(
        self, cases: Iterable[Case], dtype: str | None = None, options: Mapping[str, object] | None = None
    ) -> Case | None:
        """The first of the cases with the first dtype and options that the domain accepts."""
        dtypes = self._allowed if dtype is None else [dtype]
        every_option = self.op.all_options()
        combinations = (dict(zip(every_option, c, strict=True)) for c in itertools.product(*every_option.values()))
        choices = [options] if options is not None else list(itertools.islice(combinations, _MOST_CHOICES))
        for case, wanted_dtype, wanted in itertools.product(cases, dtypes, choices):
            candidate = case.with_(dtype=wanted_dtype, options=wanted)
            if self.domain.accepts(candidate):
                return candidate
            if self.domain.is_explored:
                break
        return None

    def _other_sizes(self) -> Iterator[Case]:
        """Sizes that no one declared: of one dim, then of all dims."""
        first = self._declared[0]
        for axis in axes(first):
            for size in sizes.candidates([axis.of(first)], largest=4096):
                yield first.with_(dims={**first.dims, **axis.resized(first, size)})
        for size in sizes.candidates([], largest=1024):
            yield _of_one_size(first, size)

    def _shrink(self, case: Case) -> Case:
        return sizes.shrink_inside(self.domain, case, _SLOW_BASE_ELEMENTS if self.slow else _BASE_ELEMENTS)

    def _odd(self, case: Case) -> Case:
        """Every dim one smaller: odd where the author's sizes are even. Otherwise another size that is inside."""
        odd = case
        most = min(self.max_elements, max(_ODD_ELEMENTS, largest_input(self.op, case)))
        for dim, size in case.dims.items():
            smaller: Size = tuple(n - (n > 2) for n in size) if isinstance(size, tuple) else size - (size > 2)
            changed = self.op.resize(odd, {dim: smaller})
            if self.domain.accepts(changed):
                odd = changed
                continue
            for axis in axes(odd):
                if axis.dim == dim and axis.of(odd) == axis.of(case) > 2:
                    odd = sizes.another_size(self.domain, odd, axis, most) or odd
        return odd

    def _give(self, case: Case, names: Iterable[str]) -> Case:
        """The case with these optional inputs given, except those that the domain excludes."""
        for name in names:
            changed = case.with_(options={**case.options, name: True})
            case = changed if self.domain.accepts(changed) else case
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

    # Sizes ---------------------------------------------------------------------------------------------

    def resized(self, dim: str, usual: Sequence[int]) -> list[Case]:
        """The odd base with each of the usual sizes of one dim, as far as they are inside.

        Where most are not, with further sizes that are: multiples, and sizes near the declared ones.
        """
        axis, limit = self._axis(dim), min(self.max_elements, _SIZED_ELEMENTS)
        found = self.resized_to(dim, usual)
        ordinary = [size for size in usual if size > 2]  # an op may well exclude empty inputs
        if axis is None or 2 * len(found.keys() & set(ordinary)) >= len(ordinary):
            return list(found.values())
        declared = [axis.of(case) for case in self._declared if axis in axes(case)]
        largest = max(*usual, *(n for n in declared if n <= 1 << 16), axis.of(self.odd))
        others = sorted({*usual, *sizes.candidates(declared, largest=largest)} - found.keys())
        by_size = sizes.cases_by_size(self.domain, self.odd, axis, others)
        count = _FEW_LIMITED_SIZES if self.quick or self.slow else _LIMITED_SIZES
        for size in sizes.spread(sorted(by_size), count):
            found[size] = sizes.shrink_inside(self.domain, by_size[size], limit, keep=axis)
        return list(found.values())

    def resized_to(self, dim: str, all_sizes: Sequence[int]) -> dict[int, Case]:
        """By size: the odd base with that size of one dim; the sizes that are inside."""
        axis, limit = self._axis(dim), min(self.max_elements, _SIZED_ELEMENTS)
        found = {}
        for size in all_sizes:
            case = self._with_size(dim, size)
            if not self.domain.accepts(case) and axis is not None:
                case = self.odd.with_(dims={**self.odd.dims, **axis.resized(self.odd, size)})
                case = sizes.shrink_inside(self.domain, case, limit, keep=axis) if self.domain.accepts(case) else case
            if self.domain.accepts(case):
                found[size] = case
        return found

    def together(self, all_sizes: Sequence[int]) -> Iterator[Case]:
        """Every dim of the same size."""
        for size in all_sizes:
            yield _of_one_size(self.odd, size)

    def many_rows(self) -> list[Case]:
        """More rows than 16 bits count, of an op that declares what it reduces: its first dim then repeats rows.

        Without that declaration the first dim may be one that is paired with itself, as positions are in attention.
        """
        first = self.op.dims[0]
        if self.quick or self.slow or first == ELLIPSIS or not self.op.reduces or first in self.op.reduces:
            return []
        return self.resized(first, _MANY_ROWS)[-2:]

    def near_declared(self, dim: str) -> list[int]:
        """The declared sizes of a dim, and those next to them."""
        axis = self._axis(dim)
        declared = [axis.of(case) for case in self._declared if axis in axes(case)] if axis else []
        return sorted({n + change for n in declared for change in (-1, 0, 1) if n <= 1 << 16})

    def rows_and_columns(self, rows: Sequence[int], columns: Sequence[int]) -> Iterator[Case]:
        """Of an op without named dims: few long rows, then many short ones."""
        lead = self.odd.dims[ELLIPSIS]
        assert isinstance(lead, tuple)
        yield from (self.odd.with_(dims={ELLIPSIS: (3, n)}) for n in columns)
        for n in rows:
            short = self.odd.with_(dims={ELLIPSIS: (n, 5)})
            yield short if self.domain.accepts(short) else self.odd.with_(dims={ELLIPSIS: (n, *lead[-1:])})

    def with_lead(self, lead: tuple[int, ...], base: Case | None = None) -> Case:
        """A base with these leading dims. Where an op without named dims refuses them: before the base's last dim."""
        case = self.op.resize(base or self.odd, {ELLIPSIS: lead})
        own = (base or self.odd).dims[ELLIPSIS]
        if len(self.op.dims) > 1 or self.domain.accepts(case) or not isinstance(own, tuple):
            return case
        return self.op.resize(base or self.odd, {ELLIPSIS: (*lead[:-1], *own[-1:])})

    def with_four_dims(self) -> Case:
        """The regular base with enough leading dims for four in all, where the op takes any number of them."""
        lead = (2, 3, 2) if len(self.op.dims) > 1 else (2, 3, 5, 16)
        return self.with_lead(lead, self.regular) if ELLIPSIS in self.op.dims else self.regular

    def deep_cases(self) -> list[Case]:
        """Of an op that takes any number of dims: the odd base with three and with four. Otherwise the odd base."""
        if ELLIPSIS not in self.op.dims:
            return [self.odd]
        own = self.odd.dims[ELLIPSIS]
        assert isinstance(own, tuple)
        last = () if len(self.op.dims) > 1 else own[-1:]
        cases = [self.odd.with_(dims={**self.odd.dims, ELLIPSIS: (*lead, *last)}) for lead in ((3, 5), (2, 3, 4))]
        return [case for case in cases if self.domain.accepts(case)]

    def _axis(self, dim: str) -> Axis | None:
        """The size that stands for a dim: of an op without named dims the last, of leading dims the first."""
        size = self.odd.dims[dim]
        if not isinstance(size, tuple):
            return Axis(dim)
        return Axis(dim, 0 if len(self.op.dims) > 1 else len(size) - 1) if size else None

    def _with_size(self, dim: str, size: Size) -> Case:
        """The odd base with one dim of another size; other dims are made smaller where it would become too large."""
        bound = (size,) if dim == ELLIPSIS and isinstance(size, int) else size
        case = self.odd.with_(dims={**self.odd.dims, dim: bound})  # this dim alone: no other dim follows it
        while largest_input(self.op, case) > min(self.max_elements, _SIZED_ELEMENTS):
            others = {d: math.prod(n) if isinstance(n, tuple) else n for d, n in case.dims.items() if d != dim}
            widest = max(others, key=lambda d: others[d], default=None)
            if widest is None or others[widest] <= 2:
                return case
            smaller: Size = (2,) if widest == ELLIPSIS else max(2, others[widest] // 4)
            case = case.with_(dims={**case.dims, widest: smaller})
        return case

    def leading_sizes(self, all_sizes: Sequence[int]) -> list[int]:
        """The sizes to try for a leading dim: it repeats the op, so that many sizes take time and show little."""
        return [n for n in all_sizes if n < (64 if self.quick or self.slow else 1024)]

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

    # Dtypes --------------------------------------------------------------------------------------------

    def extreme_dtypes(self) -> list[str]:
        """The widest common dtype and the narrowest: they differ in vector width and in rounding."""
        ordered = sorted((t for t in self.dtypes if t != "float64"), key=lambda t: -_PRECISION[t])
        ordered = ordered or self.dtypes
        return list(dict.fromkeys((ordered[0],) if self.quick else (ordered[0], ordered[-1])))

    def narrowest_dtype(self) -> str:
        return min(self.dtypes, key=lambda dtype: _PRECISION[dtype])


def _declared_cases(op: Op, device: str, dtype: str) -> list[Case]:
    """A case for each of the declared sizes, with the first values of the options."""
    try:
        cases = op.expand(CaseRequest(), device)
    except UserError:  # no declared sizes at all
        cases = []
    if not cases:
        sizes_of_none: dict[str, Size] = dict.fromkeys(op.dims, 64)
        if ELLIPSIS in sizes_of_none:
            sizes_of_none[ELLIPSIS] = (4,) if len(sizes_of_none) > 1 else (4, 64)
        cases = [Case(sizes_of_none, dtype, device=device)]
    options = {name: values[0] for name, values in op.all_options().items()}
    distinct = {tuple(case.dims.items()): case.with_(dtype=dtype, options=options) for case in cases}
    return list(distinct.values())[:_MOST_DECLARED]


def _of_one_size(case: Case, size: int) -> Case:
    return case.with_(dims={d: (size,) * len(n) if isinstance(n, tuple) else size for d, n in case.dims.items()})
