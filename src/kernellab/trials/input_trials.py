"""Trials of the forward pass, one function for each kind: each varies one thing from the bases."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from kernellab.declaration.case import ELLIPSIS, Size
from kernellab.trials import calls
from kernellab.trials.bases import Bases
from kernellab.trials.layouts import CHANNELS_LAST, FAR, INDEX_LAYOUTS, LAYOUTS
from kernellab.trials.pairwise import pairwise
from kernellab.trials.small_cases import largest_input
from kernellab.trials.trial import Trial
from kernellab.trials.values import INDICES

_SIZES = (0, 1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 64, 65, 97, 127, 128, 129, 255, 256, 257)
_WIDE_SIZES = (509, 511, 512, 513, 1021, 1023, 1024, 1025, 2049, 4095, 4096, 4097)
_REDUCED_SIZES = (8191, 8193, 16384, 32769, 65535, 65536, 65537, 131072, 262143, 262144)
_QUICK_SIZES = (0, 1, 2, 33, 128, 129, 1025)
_LEADING_DIMS: tuple[tuple[int, ...], ...] = ((), (5,), (3, 5), (2, 3, 5), (2, 1, 3, 2), (0,), (1, 1), (2, 0, 3))
_BEYOND_INT32 = (1 << 31) + 1


def option_trials(bases: Bases) -> Iterator[Trial]:
    for options in pairwise(bases.op.all_options()):
        for base in bases.both:
            yield Trial("options", base.with_(options=options))


def dtype_trials(bases: Bases) -> Iterator[Trial]:
    for dtype, base in itertools.product(bases.dtypes, bases.both):
        yield Trial("dtypes", base.with_(dtype=dtype))


def size_trials(bases: Bases) -> Iterator[Trial]:
    dims = bases.op.dims
    dtypes = bases.extreme_dtypes()[: 1 if bases.slow else None]
    for dim in dims:
        sizes = bases.leading_sizes(_SIZES) if dim == ELLIPSIS and len(dims) > 1 else _sizes(bases, dim)
        for size, dtype in itertools.product(sizes, dtypes):
            yield Trial("sizes", bases.resize(dim, size).with_(dtype=dtype))
    for variant, dim in itertools.product(bases.optional_inputs, dims):
        for size in bases.leading_sizes(_QUICK_SIZES) if dim == ELLIPSIS else _QUICK_SIZES:
            yield Trial("sizes", bases.resize(dim, size).with_(options=variant.case.options))


def _sizes(bases: Bases, dim: str) -> Sequence[int]:
    if bases.quick:
        return _QUICK_SIZES
    return (*_SIZES, *_WIDE_SIZES, *(_REDUCED_SIZES if dim in bases.op.reduces else ()))


def rank_trials(bases: Bases) -> Iterator[Trial]:
    if ELLIPSIS in bases.op.dims:
        for lead in _LEADING_DIMS:
            yield Trial("ranks", bases.op.resize(bases.odd, {ELLIPSIS: lead}))


def layout_trials(bases: Bases) -> Iterator[Trial]:
    base_cases = (bases.regular,) if bases.quick else bases.both
    dtypes = bases.extreme_dtypes()
    pairs = zip(base_cases, dtypes, strict=False) if bases.slow else itertools.product(base_cases, dtypes)
    for base, dtype in pairs:
        case = base.with_(dtype=dtype)
        for layout in LAYOUTS:
            for names in bases.each_then_all(case, layout):
                yield Trial("layouts", case, layouts=dict.fromkeys(names, layout))
    for case, layout in itertools.product(base_cases, INDEX_LAYOUTS):
        for name in bases.inputs_fitting(layout, bases.other_inputs(case), case):
            yield Trial("layouts", case, layouts={name: layout})
    case = bases.with_four_dims()
    for names in bases.each_then_all(case, CHANNELS_LAST):
        yield Trial("layouts", case, layouts=dict.fromkeys(names, CHANNELS_LAST))
    for variant, layout in itertools.product(bases.optional_inputs, LAYOUTS):
        names = bases.inputs_fitting(layout, variant.varied, variant.case)
        yield Trial("layouts", variant.case, layouts=dict.fromkeys(names, layout))


def value_trials(bases: Bases) -> Iterator[Trial]:
    dtypes = bases.dtypes[:1] if bases.quick else bases.dtypes
    for dtype, values in itertools.product(dtypes, bases.special_values(bases.regular)):
        case = bases.regular.with_(dtype=dtype)
        for names in bases.each_then_all(case, values=values):
            yield Trial("values", case, values=dict.fromkeys(names, values))
    for variant in bases.optional_inputs:
        floats = [name for name in variant.varied if bases.op.args[name].is_float]
        for values in bases.special_values(variant.case):
            if names := bases.inputs_allowing(values, floats):
                yield Trial("values", variant.case, values=dict.fromkeys(names, values))


def index_trials(bases: Bases) -> Iterator[Trial]:
    for case in (bases.odd, *(variant.case for variant in bases.optional_inputs)):
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
        case = bases.op.resize(bases.regular.with_(dtype=bases.narrowest_dtype()), changed)
        for names in bases.each_then_all(case, layout):
            yield Trial("strides", case, layouts=dict.fromkeys(names[:1], layout))


def large_trials(bases: Bases) -> Iterator[Trial]:
    """The first dim so long that the elements of an input cannot be counted in 32 bits."""
    if bases.slow:
        return
    op, first = bases.op, bases.op.dims[0]
    case = bases.regular.with_(dtype=bases.narrowest_dtype())
    if first == ELLIPSIS:
        per_row = largest_input(op, op.resize(case, {ELLIPSIS: (1,)}))
        yield Trial("large", op.resize(case, {ELLIPSIS: (-(-_BEYOND_INT32 // max(1, per_row)),)}))
        return
    size = case.dims[first]
    assert isinstance(size, int)
    per_row = max(1, largest_input(op, case) // max(1, size))
    yield Trial("large", case.with_(dims={**case.dims, first: -(-_BEYOND_INT32 // per_row)}))
