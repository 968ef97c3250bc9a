"""Sizes besides powers of two and their neighbours: ordinary even ones, two dims together, and dims that are long.

Kernels choose their path by divisors and by thresholds, often of two dims at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from kernellab.declaration.case import ELLIPSIS, Case
from kernellab.trials.bases import Bases
from kernellab.trials.choosing.small_cases import Axis, axes, largest_input
from kernellab.trials.sizes import spread
from kernellab.trials.trial import Trial

# Every remainder of 4 to 128, multiples of 3 and of 10, and thresholds between the powers of two; as models have them.
ORDINARY = (6, 12, 20, 48, 96, 100, 384, 640, 768, 1000, 1536, 3072, 5120, 6000)
_ORDINARY_GRADIENTS = (6, 20, 48, 96, 100, 384, 768, 1000, 3072, 6000)
_ORDINARY_LEADING, _QUICK = (6, 20, 96, 1000), (12, 48, 96, 1000)
_LARGEST_SLOW = 768  # in Triton's interpreter
_LARGEST_ORDINARY = 4096  # of a dim that is not reduced
_MOST_SIZES = 45  # of all dims together; with many dims, each has fewer
# Both multiples of 128, one twice the other; one a multiple of 512; both odd and beyond a block of 1024.
_OF_TWO_DIMS = ((256, 128), (128, 512), (1201, 1031))
_TWO_DIMS_ELEMENTS = 1 << 21
_MOST_PAIRS = 6
_LONG, _LONG_GRADIENTS = (5120, 12288, 65664), (12288, 65664)  # multiples of 128: more domains accept them than a prime
_BEYOND_FLOAT32 = ((4099, 4099), (4224, 4224))  # more than 2²⁴ elements: not every number is a float32 from here on
LONG_ELEMENTS = 36 << 20  # of an input that has twice as many elements as the result, too


def ordinary_size_trials(bases: Bases) -> Iterator[Trial]:
    dtypes = itertools.cycle(bases.extreme_dtypes())
    for case in _ordinary(bases, ORDINARY):
        yield Trial("sizes", case.with_(dtype=next(dtypes)))
    for case in _ordinary(bases, _ORDINARY_GRADIENTS):
        yield Trial("gradients", case, pass_name="backward")
    if not (bases.quick or bases.slow):
        for case in _two_dims(bases):
            yield Trial("sizes", case)
            yield Trial("gradients", case, pass_name="backward")


def long_trials(bases: Bases) -> Iterator[Trial]:
    """Each dim in turn longer than the usual blocks, grids and 16 bits, the others short; then many elements in all."""
    if bases.slow:
        return
    for dim in bases.op.dims:
        if dim == ELLIPSIS or dim in bases.op.reduces:  # these are tried up to larger sizes anyway
            continue
        for size, case in bases.resized_to(dim, _LONG).items():
            yield Trial("long", case)
            if size in _LONG_GRADIENTS:
                yield Trial("long", case, pass_name="backward")
    for first, last in _pairs(bases.odd)[:1]:
        for case in (_with_sizes(bases, {first: m, last: n}) for m, n in _BEYOND_FLOAT32):
            if largest_input(bases.op, case) <= LONG_ELEMENTS and bases.domain.accepts(case):
                yield Trial("long", case)
                break


def _ordinary(bases: Bases, usual: Sequence[int]) -> Iterator[Case]:
    dims = bases.op.dims
    if dims == (ELLIPSIS,):
        yield from _planes(bases, _limited(bases, usual))
        return
    for dim in dims:
        # Longer dims are tried as such, where the reference is cheap: attention compares all pairs of positions.
        within = [n for n in usual if n <= _LARGEST_ORDINARY or dim in bases.op.reduces]
        chosen = _ORDINARY_LEADING if dim == ELLIPSIS else spread(within, max(4, _MOST_SIZES // len(dims)))
        yield from bases.resized_to(dim, _limited(bases, chosen)).values()


def _limited(bases: Bases, usual: Sequence[int]) -> Sequence[int]:
    if bases.quick or bases.slow:
        return [n for n in _QUICK if n <= _LARGEST_SLOW or not bases.slow]
    return usual


def _planes(bases: Bases, columns: Sequence[int]) -> Iterator[Case]:
    """Of an op without named dims: rows of these lengths, of which there are another such number."""
    rows = itertools.cycle(n for n in columns if n <= 100)
    for m, n in zip(rows, columns, strict=False):
        case = bases.odd.with_(dims={ELLIPSIS: (m, n)})
        if bases.domain.accepts(case):
            yield case


def _two_dims(bases: Bases) -> Iterator[Case]:
    for (first, last), (m, n) in itertools.product(_pairs(bases.odd)[:_MOST_PAIRS], _OF_TWO_DIMS):
        case = _with_sizes(bases, {first: m, last: n})
        if largest_input(bases.op, case) <= _TWO_DIMS_ELEMENTS and bases.domain.accepts(case):
            yield case


def _pairs(case: Case) -> list[tuple[Axis, Axis]]:
    """Two sizes of a case, first those of the outermost and the innermost dim."""
    found = list(itertools.combinations(axes(case), 2))
    return sorted(found, key=lambda pair: axes(case).index(pair[0]) - axes(case).index(pair[1]))


def _with_sizes(bases: Bases, sizes: dict[Axis, int]) -> Case:
    """The odd base with two other sizes. The dims beside them are made short where it would become too large."""
    case = bases.odd
    for axis, size in sizes.items():
        case = case.with_(dims={**case.dims, **axis.resized(case, size)})
    for axis in axes(case):
        if axis not in sizes and largest_input(bases.op, case) > _TWO_DIMS_ELEMENTS:
            shorter = case.with_(dims={**case.dims, **axis.resized(case, min(axis.of(case), 3))})
            case = shorter if bases.domain.accepts(shorter) else case
    return case
