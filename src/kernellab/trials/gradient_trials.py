"""Trials of the backward pass: upstream gradients, options, layouts, sizes, values, partial gradients."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from kernellab.declaration.case import ELLIPSIS, Case
from kernellab.trials import calls, sizes
from kernellab.trials.bases import Bases
from kernellab.trials.choosing.pairwise import pairwise
from kernellab.trials.choosing.small_cases import largest_input
from kernellab.trials.input_trials import options_in_other_dtypes, other_options
from kernellab.trials.layouts import CHANNELS_LAST, LAYOUTS
from kernellab.trials.trial import Trial
from kernellab.trials.trial_inputs import UPSTREAM

# As large as those of the forward pass: a gradient is summed over what the forward pass repeats.
_SIZES = (0, 1, 97, 1025, 2049, 4097)
# In sums of one or two terms gradients cancel: only rounding errors are left.
_REDUCED_SIZES = (0, 97, 1025, 4097, 8193, 65537, 262144)
_COLUMNS, _ROWS = (4097, 65537, 262144), (97, 2049, 4097, 65537)  # of an op without named dims
_LATE_ROWS = (2049, 4097, 65537)  # of leading dims
_VALUES = ("moderately large", "all zero", "all equal")
_INDEX_VALUES = ("one and the same", "first and last")
_GRADCHECK_ELEMENTS, _MOST_GRADCHECK_ELEMENTS = 48, 256  # finite differences call once per element


def gradient_trials(bases: Bases) -> Iterator[Trial]:
    regular, odd = bases.both
    for dtype in bases.dtypes[:1] if bases.quick else bases.dtypes:
        for upstream, case in itertools.product(UPSTREAM, bases.pair(dtype=dtype)):
            yield Trial("gradients", case, pass_name="backward", upstream=upstream)
    for options in pairwise(bases.op.all_options()):
        yield from (Trial("gradients", case, pass_name="backward") for case in bases.pair(options=options))
    if not bases.quick:
        yield from _other_paths(bases)
    for case in bases.declared():
        yield Trial("gradients", case, pass_name="backward")
    for layout in (*LAYOUTS, CHANNELS_LAST):
        case = bases.with_four_dims() if layout == CHANNELS_LAST else regular
        for names in bases.each_then_all(case, layout):
            yield Trial("gradients", case, layouts=dict.fromkeys(names, layout), pass_name="backward")
    for case in _resized_cases(bases):
        yield Trial("gradients", case, pass_name="backward")
    for case in _long_sums_in_other_dtypes(bases):
        yield Trial("gradients", case, pass_name="backward")
    for dtype, values in itertools.product(bases.extreme_dtypes(), _special_values(bases)):
        for case in bases.pair(dtype=dtype)[-1:]:
            yield Trial("gradients", case, values=values, pass_name="backward")
    yield from _partial_gradients(bases)
    yield Trial("gradients", odd, pass_name="backward", call=calls.BACKWARD_TWICE)
    for case in bases.both:
        yield Trial("gradients", case, pass_name="backward", call=calls.INTERLEAVED)
    yield Trial("gradients", odd, pass_name="double backward")
    if "float64" in bases.op.dtypes and "float64" in bases.dtypes:
        for case in bases.pair(dtype="float64")[-1:]:
            small = sizes.shrink_inside(bases.domain, case, _GRADCHECK_ELEMENTS)
            if largest_input(bases.op, small) <= _MOST_GRADCHECK_ELEMENTS:
                yield Trial("gradients", small, pass_name="backward", call=calls.GRADCHECK)


def _other_paths(bases: Bases) -> Iterator[Trial]:
    """What the base is tried with, more briefly, for option values that it does not have."""
    for case in options_in_other_dtypes(bases):
        yield Trial("gradients", case, pass_name="backward")
    for options in other_options(bases):
        case = bases.pair(options=options)[-1]
        for upstream in UPSTREAM:
            yield Trial("gradients", case, pass_name="backward", upstream=upstream)
        for dim in bases.op.dims if not bases.slow else ():
            for resized in bases.resized(dim, _SIZES[-1:]):
                yield Trial("gradients", resized.with_(dtype=case.dtype, options=options), pass_name="backward")


def _resized_cases(bases: Bases) -> Iterator[Case]:
    dims = bases.op.dims
    for dim in dims:
        usual: Sequence[int] = _SIZES
        if dim in bases.op.reduces or dims == (ELLIPSIS,):  # without named dims, a reduction is not declared
            usual = _REDUCED_SIZES
        if dim == ELLIPSIS and len(dims) > 1:
            usual = (*bases.leading_sizes(_SIZES), *(() if bases.slow else _LATE_ROWS))
        yield from bases.resized(dim, (usual[0], usual[-1]) if bases.quick else usual)
    if dims == (ELLIPSIS,):
        rows, columns = (_ROWS[1:2], _COLUMNS[:1]) if bases.quick else (_ROWS, _COLUMNS)
        yield from bases.rows_and_columns([] if bases.slow else rows, columns)
    yield from bases.many_rows()
    if ELLIPSIS in dims:
        yield bases.with_lead((2, 3) if len(dims) > 1 else (2, 3, 5))


def _long_sums_in_other_dtypes(bases: Bases) -> Iterator[Case]:
    """In bfloat16, 256 + 1 is 256: partial sums of a gradient that are kept in 16 bits show over many terms only."""
    for dtype in bases.extreme_dtypes() if not bases.slow else ():
        if dtype != bases.regular.dtype:
            for dim in bases.op.dims:
                yield from (case.with_(dtype=dtype) for case in bases.resized(dim, _SIZES[-1:]))


def _special_values(bases: Bases) -> Iterator[dict[str, str]]:
    """Values at which a derivative overflows or divides by 0; indices that occur more than once."""
    for name, values in itertools.product(bases.float_inputs(bases.odd), _VALUES[: 1 if bases.quick else None]):
        if bases.inputs_allowing(values, [name]):
            yield {name: values}
    for name, values in itertools.product(bases.index_inputs(bases.odd), _INDEX_VALUES):
        yield {name: values}


def _partial_gradients(bases: Bases) -> Iterator[Trial]:
    """One input requires a gradient; all but one do; the loss depends on one result."""
    names = [name for name in bases.float_inputs(bases.odd) if name in bases.op.gradient_args]
    if len(names) > 1:
        subsets = [*([name] for name in names), *([n for n in names if n != frozen] for frozen in names)]
        yield from (Trial("gradients", bases.odd, pass_name="backward", wrt=tuple(wrt)) for wrt in subsets)
    for number in (0, -1):
        yield Trial("gradients", bases.odd, pass_name="backward", loss_on=number)
