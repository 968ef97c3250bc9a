"""Trials of the forward pass, one function for each kind: each varies one thing from the bases."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from kernellab.declaration.case import ELLIPSIS, Case, Size
from kernellab.trials import calls
from kernellab.trials.bases import Bases
from kernellab.trials.choosing.pairwise import pairwise
from kernellab.trials.choosing.small_cases import largest_input
from kernellab.trials.layouts import CHANNELS_LAST, DEEP_LAYOUTS, FAR, INDEX_LAYOUTS, LAYOUTS
from kernellab.trials.sizes import spread
from kernellab.trials.trial import Trial
from kernellab.trials.trial_inputs import UPSTREAM_LAYOUTS
from kernellab.trials.values import FAR_LARGER_AT_THE_END, INDICES, LARGE_AT_THE_END

SIZES = (0, 1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 64, 65, 97, 127, 128, 129, 255, 256, 257)
WIDE_SIZES = (509, 511, 512, 513, 1021, 1023, 1024, 1025, 2049, 4095, 4096, 4097)
REDUCED_SIZES = (8191, 8193, 16384, 32769, 65535, 65536, 65537, 131072, 262143, 262144)
# Of an op without named dims: it may reduce its rows, and no one has declared that.
COLUMNS = (1023, 1025, 4097, 8193, 16385, 32769, 65536, 65537, 131073, 262144)
ROWS = (1, 2, 33, 129, 1025, 2049, 4097, 65537)
_LATE_ROWS = (2049, 4097, 65537)  # of leading dims
_TOGETHER = (1, 2, 17, 33, 129, 257, 513, 1025)
_QUICK_SIZES = (0, 1, 2, 33, 128, 129, 1025)
_QUICK_COLUMNS, _QUICK_ROWS = (4097, 65537), (2049,)
_LEADING_DIMS: tuple[tuple[int, ...], ...] = ((), (5,), (3, 5), (2, 3, 5), (2, 1, 3, 2), (0,), (1, 1), (2, 0, 3))
_BEYOND_INT32 = (1 << 31) + 1
_PATH_SIZES, _SLOW_PATH_SIZES = (1, 129, 4097), (1, 129)  # with other options
_PATH_LAYOUTS = ("transposed", "sliced columns", "every second element", "expanded rows")
_DEEP = (*DEEP_LAYOUTS, "every second element", "sliced columns", "transposed")
_SAME_TENSORS = 6  # pairs of inputs at most
_WIDE = 1000  # from here on, a value at the end is tried as well: it may lie in a block that is never read


def declared_trials(bases: Bases) -> Iterator[Trial]:
    yield from (Trial("declared", case) for case in bases.declared())


def option_trials(bases: Bases) -> Iterator[Trial]:
    for options in pairwise(bases.op.all_options()):
        yield from (Trial("options", case) for case in bases.pair(options=options))
    yield from (Trial("options", case) for case in options_in_other_dtypes(bases))
    if not bases.quick:
        for options in other_options(bases):
            yield from _other_path(bases, options)


def other_options(bases: Bases) -> Iterator[dict[str, object]]:
    """Option values that the base does not have, each at least once: often each is a path of its own in a kernel."""
    seen = {(name, repr(value)) for name, value in bases.regular.options.items()}
    for options in pairwise(bases.op.all_options()):
        new = {(name, repr(value)) for name, value in options.items()} - seen
        if new and bases.pair(options=options):
            seen |= new
            yield options


def options_in_other_dtypes(bases: Bases) -> Iterator[Case]:
    """Option values that the base does not have, in the dtypes that it does not have: a kernel may branch on both."""
    for options, dtype in itertools.product(list(other_options(bases)), bases.dtypes):
        if dtype != bases.regular.dtype:
            yield from bases.pair(dtype=dtype, options=options)[-1:]


def _other_path(bases: Bases, options: Mapping[str, object]) -> Iterator[Trial]:
    """What the base is tried with, more briefly: values, layouts, and sizes of each dim."""
    case = bases.pair(options=options)[-1]
    names = bases.float_inputs(case)
    for values in bases.special_values(case):
        yield Trial("options", case, values=dict.fromkeys(bases.inputs_allowing(values, names), values))
    for layout in _PATH_LAYOUTS:
        yield Trial("options", case, layouts=dict.fromkeys(bases.inputs_fitting(layout, names, case), layout))
    for dim in bases.op.dims:
        for resized in bases.resized(dim, _SLOW_PATH_SIZES if bases.slow else _PATH_SIZES):
            at_end = dict.fromkeys(bases.inputs_allowing(LARGE_AT_THE_END, names), LARGE_AT_THE_END)
            yield Trial("options", resized.with_(dtype=case.dtype, options=options), values=at_end)


def dtype_trials(bases: Bases) -> Iterator[Trial]:
    for dtype in bases.dtypes:
        yield from (Trial("dtypes", case) for case in bases.pair(dtype=dtype))


def size_trials(bases: Bases) -> Iterator[Trial]:
    dims = bases.op.dims
    dtypes = bases.extreme_dtypes()[: 1 if bases.slow else None]
    for dim in dims:
        cases = bases.resized(dim, _sizes(bases, dim))
        for case, dtype in itertools.product(cases, dtypes):
            yield Trial("sizes", case.with_(dtype=dtype))
        yield from _with_value_at_the_end(bases, dim, cases)
    yield from (Trial("sizes", case) for case in bases.many_rows())
    if dims == (ELLIPSIS,):
        rows, columns = (_QUICK_ROWS, _QUICK_COLUMNS) if bases.quick else (ROWS, COLUMNS)
        # Long rows and many rows apart: the longest of both are tried with values at their end.
        for group in (bases.rows_and_columns([], columns), bases.rows_and_columns([] if bases.slow else rows, [])):
            cases = list(group)
            yield from (Trial("sizes", case) for case in cases)
            yield from _with_value_at_the_end(bases, ELLIPSIS, cases)
    if not bases.quick:
        yield from (Trial("sizes", case) for case in bases.together(_TOGETHER))
    for variant, dim in itertools.product(bases.optional_inputs, dims):
        usual = bases.leading_sizes(_QUICK_SIZES) if dim == ELLIPSIS else _QUICK_SIZES
        for case in bases.resized(dim, usual):
            yield Trial("sizes", case.with_(options=variant.case.options))


def _sizes(bases: Bases, dim: str) -> Sequence[int]:
    if dim == ELLIPSIS and len(bases.op.dims) > 1:
        return (*bases.leading_sizes(SIZES), *(() if bases.slow else _LATE_ROWS))
    if bases.quick:
        return _QUICK_SIZES
    larger = REDUCED_SIZES if dim in bases.op.reduces else bases.near_declared(dim)
    return tuple(dict.fromkeys((*SIZES, *WIDE_SIZES, *larger)))


def _with_value_at_the_end(bases: Bases, dim: str, cases: Sequence[Case]) -> Iterator[Trial]:
    """Long rows again, with values at their end that decide sums, maximums and minimums."""
    wide = [case for case in cases if max(_as_tuple(case.dims[dim]), default=0) >= _WIDE]
    for values, count in ((LARGE_AT_THE_END, 2 if bases.quick or bases.slow else 5), (FAR_LARGER_AT_THE_END, 2)):
        for case in spread(wide, count):
            names = bases.inputs_allowing(values, bases.float_inputs(case))
            yield Trial("sizes", case, values=dict.fromkeys(names, values))


def _as_tuple(size: Size) -> tuple[int, ...]:
    return size if isinstance(size, tuple) else (size,)


def rank_trials(bases: Bases) -> Iterator[Trial]:
    if ELLIPSIS in bases.op.dims:
        yield from (Trial("ranks", bases.with_lead(lead)) for lead in _LEADING_DIMS)


def layout_trials(bases: Bases) -> Iterator[Trial]:
    dtypes, base_count = bases.extreme_dtypes(), 1 if bases.quick else 2
    cases = [case for dtype in dtypes for case in bases.pair(dtype=dtype)[:base_count]]
    if bases.slow:
        cases = [case for at, dtype in enumerate(dtypes) for case in bases.pair(dtype=dtype)[at : at + 1]]
    for case, layout in itertools.product(cases, LAYOUTS):
        for names in bases.each_then_all(case, layout):
            yield Trial("layouts", case, layouts=dict.fromkeys(names, layout))
    for case, layout in itertools.product(bases.both[:base_count], INDEX_LAYOUTS):
        for name in bases.inputs_fitting(layout, bases.other_inputs(case), case):
            yield Trial("layouts", case, layouts={name: layout})
    case = bases.with_four_dims()
    for names in bases.each_then_all(case, CHANNELS_LAST):
        yield Trial("layouts", case, layouts=dict.fromkeys(names, CHANNELS_LAST))
    for variant, layout in itertools.product(bases.optional_inputs, LAYOUTS):
        names = bases.inputs_fitting(layout, variant.varied, variant.case)
        yield Trial("layouts", variant.case, layouts=dict.fromkeys(names, layout))


def deep_layout_trials(bases: Bases) -> Iterator[Trial]:
    """Layouts in three and four dims, forward and backward, and of the upstream gradient."""
    several = [case for case in bases.deep_cases() if len(case.shape) > 2]
    for case, layout in itertools.product(several[:1] if bases.quick or bases.slow else several, _DEEP):
        for names in list(bases.each_then_all(case, layout))[-1:]:
            layouts = dict.fromkeys(names, layout)
            yield Trial("layouts", case, layouts=layouts)
            yield Trial("gradients", case, layouts=layouts, pass_name="backward")
    for case, upstream in itertools.product(several[:1] if bases.quick or bases.slow else several, UPSTREAM_LAYOUTS):
        yield Trial("gradients", case, pass_name="backward", upstream=upstream)


def same_tensor_trials(bases: Bases) -> Iterator[Trial]:
    """One tensor for two inputs, as in x * x or in attention of a sequence to itself."""
    op, case = bases.op, bases.odd
    args = {name: op.args[name] for name in bases.float_inputs(case) if not op.args[name].contiguous}
    pairs = [
        (a, b)
        for a, b in itertools.combinations(args, 2)
        if (op.sizes(args[a], case), op.dtype_of(args[a], case), args[a].values)
        == (op.sizes(args[b], case), op.dtype_of(args[b], case), args[b].values)
    ]
    for same in pairs[:_SAME_TENSORS]:
        yield Trial("calls", case, same=same)
        yield Trial("calls", case, same=same, pass_name="backward")


def value_trials(bases: Bases) -> Iterator[Trial]:
    for dtype in bases.dtypes[:1] if bases.quick else bases.dtypes:
        # At the odd base, blocks have a tail: what is put there in place of values must not matter.
        for case in bases.pair(dtype=dtype)[: 2 if dtype in bases.extreme_dtypes() else 1]:
            for values in bases.special_values(case):
                for names in bases.each_then_all(case, values=values):
                    yield Trial("values", case, values=dict.fromkeys(names, values))
    for variant in bases.optional_inputs:
        floats = [name for name in variant.varied if bases.op.args[name].is_float]
        for values in bases.special_values(variant.case):
            if names := bases.inputs_allowing(values, floats):
                yield Trial("values", variant.case, values=dict.fromkeys(names, values))


def index_trials(bases: Bases) -> Iterator[Trial]:
    for case in (*bases.both, *(variant.case for variant in bases.optional_inputs)):
        for name, values in itertools.product(bases.index_inputs(case), INDICES):
            yield Trial("indices", case, values={name: values})


def call_trials(bases: Bases) -> Iterator[Trial]:
    for call, base in itertools.product(calls.FORWARD_VARIANTS, bases.both):
        yield Trial("calls", base, call=call)


def far_trials(bases: Bases) -> Iterator[Trial]:
    """Small tensors whose rows or columns are more than 2³¹ elements apart."""
    dims = bases.op.dims
    for layout in FAR:
        changed: dict[str, Size] = dict.fromkeys(dims, 3) if layout == "far columns" else {dims[0]: 3}
        if ELLIPSIS in changed:
            changed[ELLIPSIS] = (3,) if len(dims) > 1 else (3, 16)
        for base in bases.pair(dtype=bases.narrowest_dtype())[:1]:
            case = bases.op.resize(base, changed)
            for names in bases.each_then_all(case, layout):
                yield Trial("strides", case, layouts=dict.fromkeys(names[:1], layout))


def large_trials(bases: Bases) -> Iterator[Trial]:
    """The first dim so long that the elements of an input cannot be counted in 32 bits."""
    if bases.slow:
        return
    op, first = bases.op, bases.op.dims[0]
    for case in bases.pair(dtype=bases.narrowest_dtype())[:1]:
        size = case.dims[first]
        if isinstance(size, tuple):
            per_row = largest_input(op, op.resize(case, {first: (1,)}))
        else:
            per_row = largest_input(op, case) // max(1, size)
        rows = -(-_BEYOND_INT32 // max(1, per_row))
        for step in (1, 128, 4096):  # the first that the domain accepts
            count = -(-rows // step) * step
            large = case.with_(dims={**case.dims, first: (count,) if first == ELLIPSIS else count})
            if bases.domain.accepts(large):
                yield Trial("large", large)
                break
