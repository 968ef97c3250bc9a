"""Option combinations: every pair of values of two options occurs in one of them. No torch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

_ALL_COMBINATIONS = 16  # up to this many, all combinations are tried
_CANDIDATES = 4096  # combinations considered for each choice


def pairwise(options: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    """Combinations in which every pair of values of two options occurs; all combinations where there are few.

    >>> len(pairwise({"a": [1, 2], "b": [1, 2]})), len(pairwise({n: [1, 2, 3] for n in "abcd"})) < 81
    (4, True)
    """
    names = list(options)
    combinations = [dict(zip(names, choice, strict=True)) for choice in itertools.product(*options.values())]
    if len(combinations) <= _ALL_COMBINATIONS:
        return combinations
    missing = {
        (a, i, b, j)
        for a, b in itertools.combinations(names, 2)
        for i in range(len(options[a]))
        for j in range(len(options[b]))
    }
    positions = {name: {id(value): i for i, value in enumerate(options[name])} for name in names}
    chosen = []
    while missing:
        best, best_pairs = combinations[0], set[tuple[str, int, str, int]]()
        for candidate in combinations[:_CANDIDATES]:
            at = {name: positions[name][id(candidate[name])] for name in names}
            pairs = {(a, at[a], b, at[b]) for a, b in itertools.combinations(names, 2)} & missing
            if len(pairs) > len(best_pairs):
                best, best_pairs = candidate, pairs
        if not best_pairs:
            break
        missing -= best_pairs
        chosen.append(best)
    return chosen
