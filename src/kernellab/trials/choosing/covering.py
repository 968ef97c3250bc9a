"""Few combinations of many factors, in which every pair of unusual values occurs. No torch."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")
Assignment = dict[str, int]  # by factor: the number of its value
_Pair = tuple[tuple[str, int], tuple[str, int]]


def cover_pairs(counts: Mapping[str, int], make: Callable[[Assignment], T | None]) -> list[T]:
    """What `make` returns for combinations in which every two values occur that are both not the first of a factor.

    The first value is the usual one, with which other trials try every value alone. `make` returns None where a
    combination is impossible; pairs that occur in no possible one are left out. The same arguments give the same list.

    >>> made = cover_pairs({"a": 3, "b": 3, "c": 2}, lambda chosen: tuple(chosen.values()))
    >>> len(made), {(a, b) for a, b, c in made} >= {(1, 1), (1, 2), (2, 1), (2, 2)}
    (4, True)
    """
    rng = random.Random(0)
    missing: dict[_Pair, None] = {
        ((a, i), (b, j)): None
        for a, b in itertools.combinations(counts, 2)
        for i in range(1, counts[a])
        for j in range(1, counts[b])
    }
    made: list[T] = []
    while missing:
        pair = next(iter(missing))
        chosen = dict.fromkeys(counts, 0) | dict(pair)
        item = make(chosen)
        if item is not None:
            others = [name for name in counts if name not in dict(pair)]
            rng.shuffle(others)
            for name in others:
                for value in _useful_values(name, chosen, counts, missing):
                    changed = {**chosen, name: value}
                    richer = make(changed)
                    if richer is not None:
                        chosen, item = changed, richer
                        break
            made.append(item)
            for covered in _pairs(chosen):
                missing.pop(covered, None)
        missing.pop(pair, None)  # also where it is impossible
    return made


def _useful_values(
    name: str, chosen: Assignment, counts: Mapping[str, int], missing: Mapping[_Pair, None]
) -> list[int]:
    """The values of a factor that add pairs to a combination, those that add most first."""
    before = sum(pair in missing for pair in _pairs(chosen))
    gains = {
        value: sum(pair in missing for pair in _pairs({**chosen, name: value})) - before
        for value in range(1, counts[name])
    }
    return sorted((value for value, gain in gains.items() if gain > 0), key=lambda value: -gains[value])


def _pairs(chosen: Assignment) -> Iterator[_Pair]:
    return itertools.combinations(chosen.items(), 2)
