"""Trials of the backward pass: upstream gradients, options, layouts, sizes, values, partial gradients."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from kernellab.declaration.case import ELLIPSIS, Case
from kernellab.trials import calls
from kernellab.trials.bases import Bases
from kernellab.trials.layouts import CHANNELS_LAST, LAYOUTS
from kernellab.trials.pairwise import pairwise
from kernellab.trials.small_cases import shrink_to
from kernellab.trials.trial import Trial
from kernellab.trials.trial_inputs import UPSTREAM

_SIZES = (0, 1, 97, 1025)
_REDUCED_SIZES = (0, 97, 1025, 4097)  # in sums of one or two terms gradients cancel: only rounding errors are left
_VALUES = ("moderately large", "all zero", "all equal")
_INDEX_VALUES = ("one and the same", "first and last")
_GRADCHECK_ELEMENTS = 48


def gradient_trials(bases: Bases) -> Iterator[Trial]:
    regular, odd = bases.both
    dtypes = bases.dtypes[:1] if bases.quick else bases.dtypes
    for dtype, upstream, base in itertools.product(dtypes, UPSTREAM, bases.both):
        yield Trial("gradients", base.with_(dtype=dtype), pass_name="backward", upstream=upstream)
    for options in pairwise(bases.op.all_options()):
        yield Trial("gradients", regular.with_(options=options), pass_name="backward")
    for layout in (*LAYOUTS, CHANNELS_LAST):
        case = bases.with_four_dims() if layout == CHANNELS_LAST else regular
        for names in bases.each_then_all(case, layout):
            yield Trial("gradients", case, layouts=dict.fromkeys(names, layout), pass_name="backward")
    for case in _resized_cases(bases):
        yield Trial("gradients", case, pass_name="backward")
    for dtype, values in itertools.product(bases.extreme_dtypes(), _special_values(bases)):
        yield Trial("gradients", odd.with_(dtype=dtype), values=values, pass_name="backward")
    yield from _partial_gradients(bases)
    yield Trial("gradients", odd, pass_name="backward", call=calls.BACKWARD_TWICE)
    yield Trial("gradients", odd, pass_name="double backward")
    if "float64" in bases.op.dtypes and "float64" in bases.dtypes:
        small = shrink_to(bases.op, odd.with_(dtype="float64"), _GRADCHECK_ELEMENTS)
        yield Trial("gradients", small, pass_name="backward", call=calls.GRADCHECK)


def _resized_cases(bases: Bases) -> Iterator[Case]:
    dims = bases.op.dims
    for dim in dims:
        sizes: Sequence[int] = _SIZES
        if dim in bases.op.reduces or dims == (ELLIPSIS,):  # without named dims, a reduction is not declared
            sizes = _REDUCED_SIZES
        if dim == ELLIPSIS and len(dims) > 1:
            sizes = bases.leading_sizes(sizes)
        yield from (bases.resize(dim, n) for n in ((sizes[0], sizes[-1]) if bases.quick else sizes))
    if ELLIPSIS in dims:
        yield bases.op.resize(bases.odd, {ELLIPSIS: (2, 3) if len(dims) > 1 else (2, 3, 5)})


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
