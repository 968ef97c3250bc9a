"""Sizes that a domain accepts: other sizes of a dim, smaller cases, dims that depend on each other. No torch.

A domain is a function that says yes or no. It may ask for multiples, minimums, a few sizes, equal sizes of two dims or
a fixed ratio between them. Candidates are tried until some are inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from kernellab.declaration.case import Case
from kernellab.trials.choosing.small_cases import Axis, axes, largest_input, shrink_to
from kernellab.trials.domain import Domain

T = TypeVar("T")

_STEPS = (128, 64, 32, 16, 8)
_MULTIPLES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31, 32, 33)
_USUAL = (24, 40, 48, 56, 80, 96, 112, 160, 192, 224, 320, 384, 768, 1536, 3072, 5120)  # of heads and of models
_LARGEST = 1 << 16
_FEW = 3  # sizes: with fewer, sizes of other dims are changed as well
_TIED, _OF_ANOTHER = 24, 16  # sizes tried together with sizes of other dims; sizes of each other dim


def candidates(near: Iterable[int], *, largest: int = _LARGEST) -> list[int]:
    """Sizes that a limited dim may take, in ascending order: near these, multiples of 8 to 128, powers of two."""
    sizes = {step * n for step in _STEPS for n in _MULTIPLES} | {1 << n for n in range(17)} | set(_USUAL)
    for n in near:
        sizes |= {n, n - 1, n + 1, n - 8, n + 8, n - 64, n + 64, n - 128, n + 128, n // 2, 2 * n, 3 * n}
    return sorted(n for n in sizes if 0 < n <= largest)


def spread(items: Sequence[T], count: int) -> list[T]:
    """So many of the items, at least two, from the first to the last."""
    if len(items) <= count:
        return list(items)
    return [items[round(i * (len(items) - 1) / (count - 1))] for i in range(count)]


def cases_by_size(domain: Domain, case: Case, axis: Axis, sizes: Sequence[int]) -> dict[int, Case]:
    """For each of the sizes of one dim that is possible, a case inside the domain.

    The dim is changed alone. Where that gives next to nothing, dims that may be tied to it change with it.
    """
    found: dict[int, Case] = {}
    for size in sizes:
        changed = _alone(case, axis, size)
        if domain.accepts(changed):
            found[size] = changed
    if len(found.keys() - {axis.of(case)}) >= _FEW:
        return found
    for size in spread([n for n in sizes if n not in found], _TIED):
        tied = next((c for c in _tied(domain, case, axis, size) if not domain.is_explored and domain.accepts(c)), None)
        if tied is not None:
            found[size] = tied
    return found


def _alone(case: Case, axis: Axis, size: int) -> Case:
    return case.with_(dims={**case.dims, **axis.resized(case, size)})


def _tied(domain: Domain, case: Case, axis: Axis, size: int) -> Iterator[Case]:
    """The dim and others with it: those that follow it, equal sizes, a fixed ratio or difference, any other size."""
    yield domain.op.resize(case, axis.resized(case, size))
    changed, before = _alone(case, axis, size), axis.of(case)
    others = [other for other in axes(case) if other != axis]
    yield _with_sizes(changed, {other: size for other in others if other.of(case) == before})
    for other in others:
        yield _with_sizes(changed, {other: size})
        if before:
            yield _with_sizes(changed, {other: other.of(case) * size // before})
        yield _with_sizes(changed, {other: max(1, other.of(case) + size - before)})
    yield _with_sizes(changed, dict.fromkeys(others, size))
    if before:
        yield _with_sizes(changed, {other: other.of(case) * size // before for other in others})
    for other in others:
        for other_size in spread(candidates([other.of(case)], largest=4096), _OF_ANOTHER):
            yield _with_sizes(changed, {other: other_size})


def _with_sizes(case: Case, sizes: dict[Axis, int]) -> Case:
    for axis, size in sizes.items():
        case = _alone(case, axis, size)
    return case


def another_size(domain: Domain, case: Case, axis: Axis, most_elements: int) -> Case | None:
    """The case with another size of one dim, as odd as the domain allows: kernels take another path there."""
    size = axis.of(case)
    others = [n for n in candidates([size], largest=max(4 * size, 512)) if n != size]
    found = cases_by_size(domain, case, axis, others)
    small = [n for n, other in found.items() if largest_input(domain.op, other) <= most_elements]
    oddest = min(small, key=lambda n: (n < size // 2, (n & -n).bit_length(), abs(n - size)), default=None)
    return None if oddest is None else found[oddest]


def shrink_inside(domain: Domain, case: Case, max_elements: int, *, keep: Axis | None = None) -> Case:
    """A smaller case inside the domain, or the smallest that is found; the size `keep` does not change."""
    return shrink_to(domain.op, case, max_elements, accepts=domain.accepts, keep=keep)
