"""Intervals and the error level that looks share."""

import random

import pytest

from kernellab.stats.intervals import FIRST_LOOK, LOOKS, by_round, level, median_interval, share


def test_the_looks_share_the_error_level():
    assert sum(share(look) for look in range(1, LOOKS + 1)) < 1
    for looks in range(LOOKS + 1):
        spent = sum(0.01 * share(look) for look in range(1, looks + 1))
        assert 2 * level(looks, decided=False) + spent == pytest.approx(0.01)
        assert 0 < level(looks, decided=True) <= 0.0100001


def test_looking_often_does_not_raise_more_false_alarms():
    """Equal implementations, 400 runs of up to five looks: about 1 % of the runs may claim a difference."""
    rng = random.Random(7)
    alarms = 0
    for _ in range(400):
        ratios = []
        for look in range(1, 6):
            while len(ratios) < FIRST_LOOK * 2 ** (look - 1):
                ratios.append(1 + rng.gauss(0, 0.01))
            low, high = median_interval(ratios, level(look, decided=True))
            if low > 1 or high < 1:
                alarms += 1
                break
        else:
            low, high = median_interval(ratios, level(5, decided=False))
            alarms += low > 1 or high < 1
    assert alarms <= 10


def test_samples_of_a_round_count_once():
    assert by_round([1.0, 3.0, 5.0, 10.0], [0, 0, 0, 2]) == {0: 3.0, 2: 10.0}
