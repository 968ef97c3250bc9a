"""How large the largest step of a series is by chance."""

import math
import random

import pytest

from kernellab.stats.largest_step import chance_of_largest, limit_of_largest, normal_of_t


def test_the_chance_of_the_largest_step_is_that_of_simulated_series():
    """The approximation, against 2,000 flat series of known noise."""
    runs, largest = 60, []
    for seed in range(2000):
        draw, total, sums = random.Random(seed), 0.0, []
        for _ in range(runs):
            total += draw.gauss(0, 1)
            sums.append(total)
        steps = (
            abs(sums[place - 1] - total * place / runs) / math.sqrt(place * (runs - place) / runs)
            for place in range(2, runs - 1)
        )
        largest.append(max(steps))
    for z in (2.5, 3.0, 3.5):
        observed = sum(step > z for step in largest) / len(largest)
        error = 3 * math.sqrt(observed / len(largest))
        assert observed - error <= chance_of_largest(z, runs, runs - 3, 2) <= 1.3 * observed + error


def test_a_t_is_as_improbable_as_its_normal_deviate():
    # Two-sided probabilities of 1 %: t is 9.925, 3.169, 2.626 with 2, 10, 100 degrees of freedom; normal 2.576.
    for t, freedom in ((9.925, 2), (3.169, 10), (2.626, 100)):
        assert normal_of_t(t * t, freedom) == pytest.approx(2.576, rel=0.03)


def test_the_limit_is_where_the_chance_is():
    assert chance_of_largest(limit_of_largest(0.01, 100, 2), 100, 100, 2) == pytest.approx(0.01, rel=0.05)
    assert limit_of_largest(0.01, 1000, 2) > limit_of_largest(0.01, 10, 2)
