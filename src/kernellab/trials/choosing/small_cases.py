"""Smaller cases that stand in for a large one where running the large one would take too long. No torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kernellab.declaration.case import ELLIPSIS, Case, Size
from kernellab.declaration.op import Op

_FEW_ROWS = 3
_STEPS = (128, 64, 32, 16, 8)  # a limited dim often takes multiples of one of these


@dataclass(frozen=True)
class Axis:
    """One size of a case: a named dim, or one of the leading dims that `...` stands for."""

    dim: str
    at: int | None = None  # among the leading dims

    def of(self, case: Case) -> int:
        size = case.dims[self.dim]
        if isinstance(size, tuple):
            assert self.at is not None
            return size[self.at]
        return size

    def resized(self, case: Case, size: int) -> dict[str, Size]:
        """The changed entry of the case's dims."""
        lead = case.dims[self.dim]
        if isinstance(lead, tuple):
            assert self.at is not None
            return {self.dim: (*lead[: self.at], size, *lead[self.at + 1 :])}
        return {self.dim: size}


def axes(case: Case) -> list[Axis]:
    """Every size of a case."""
    found: list[Axis] = []
    for dim, size in case.dims.items():
        found += [Axis(dim, at) for at in range(len(size))] if isinstance(size, tuple) else [Axis(dim)]
    return found


def largest_input(op: Op, case: Case) -> int:
    """The number of elements of the largest input."""
    return max(1, *(math.prod(op.sizes(arg, case)) for arg in op.args.values()))


def shrink_to(
    op: Op,
    case: Case,
    max_elements: int,
    *,
    accepts: Callable[[Case], bool] | None = None,
    keep: Axis | None = None,
) -> Case:
    """The case itself if its largest input has at most `max_elements`, otherwise a smaller case of the same kind.

    Leading dims shrink first: they repeat the op, while the op computes over the named dims. A dim that equals the
    dim it defaults to keeps following it. Every step is one that `accepts` (the op's `where=` unless given) allows, so
    that the case may stay larger. The size `keep` does not change.
    """
    if accepts is None:
        accepts = (lambda case: True) if op.where is None else op.where
    while excess := _excess(op, case, max_elements):
        steps = (c for c in _smaller_cases(op, case, keep) if _excess(op, c, max_elements) < excess and accepts(c))
        smaller = next(steps, None)
        if smaller is None:
            break
        case = smaller
    return case


def _excess(op: Op, case: Case, max_elements: int) -> int:
    """Elements beyond the limit, of all inputs."""
    return sum(max(0, math.prod(op.sizes(arg, case)) - max_elements) for arg in op.args.values())


def _smaller_cases(op: Op, case: Case, keep: Axis | None) -> Iterator[Case]:
    """The usual step first. Where that is outside a domain: other dims, multiples, and dims that change together."""
    if keep is None:
        yield _halve_one_dim(op, case)
    free = sorted((axis for axis in axes(case) if axis != keep), key=lambda axis: -axis.of(case))
    for axis in free:
        for size in _smaller_sizes(axis.of(case)):
            yield op.resize(case, axis.resized(case, size))
            yield case.with_(dims={**case.dims, **axis.resized(case, size)})
    for axis in free:
        equal = [other for other in free if other.of(case) == axis.of(case)]
        yield _scaled(case, equal)
    yield _scaled(case, free)


def _smaller_sizes(size: int) -> list[int]:
    """About a half, about three quarters, and multiples near these."""
    sizes = [size // 2]
    for step in _STEPS:
        sizes += [size // 2 // step * step, size * 3 // 4 // step * step, size - step]
    return [n for n in dict.fromkeys(sizes) if 0 < n < size]


def _scaled(case: Case, halved: list[Axis]) -> Case:
    for axis in halved:
        case = case.with_(dims={**case.dims, **axis.resized(case, max(1, axis.of(case) // 2))})
    return case


def _halve_one_dim(op: Op, case: Case) -> Case:
    dims: dict[str, Size] = dict(case.dims)
    lead = dims.get(ELLIPSIS, ())
    assert isinstance(lead, tuple)
    if lead and max(lead) > _FEW_ROWS:
        at = lead.index(max(lead))
        dims[ELLIPSIS] = (*lead[:at], max(_FEW_ROWS, lead[at] // 2), *lead[at + 1 :])
        return case.with_(dims=dims)
    sizes = {dim: n for dim, n in dims.items() if isinstance(n, int) and not _follows_another(op, case, dim)}
    if not sizes:
        return case
    widest = max(sizes, key=lambda dim: sizes[dim])
    return op.resize(case, {widest: max(1, sizes[widest] // 2)})


def _follows_another(op: Op, case: Case, dim: str) -> bool:
    source = op.dim_defaults.get(dim)
    return isinstance(source, str) and case.dims[dim] == case.dims[source]
