"""Combinations in which every pair of unusual values occurs."""

import itertools

from kernellab.trials.choosing.covering import cover_pairs

COUNTS = {"dtype": 4, "option": 3, "layout": 7, "dims": 4, "upstream": 5}


def pairs_in(combinations):
    return {pair for chosen in combinations for pair in itertools.combinations(chosen.items(), 2)}


def all_pairs():
    for a, b in itertools.combinations(COUNTS, 2):
        yield from (((a, i), (b, j)) for i in range(1, COUNTS[a]) for j in range(1, COUNTS[b]))


def test_every_pair_of_unusual_values_occurs_in_few_combinations():
    made = cover_pairs(COUNTS, dict)
    assert pairs_in(made) >= set(all_pairs())
    assert len(made) <= 34, "the largest two factors alone need 24"
    assert made == cover_pairs(COUNTS, dict), "the same every time"


def test_impossible_pairs_are_left_out_and_the_others_occur():
    def possible(chosen):
        return not (chosen["dims"] == 1 and chosen["layout"] > 2) and chosen["dtype"] * chosen["upstream"] != 12

    made = cover_pairs(COUNTS, lambda chosen: dict(chosen) if possible(chosen) else None)
    assert all(map(possible, made))
    feasible = {pair for pair in all_pairs() if possible({**dict.fromkeys(COUNTS, 0), **dict(pair)})}
    assert pairs_in(made) >= feasible
    assert cover_pairs(COUNTS, lambda chosen: None) == []
