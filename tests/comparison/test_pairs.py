"""The verdict on each pair agrees with the interval that is shown beside it."""

import math
import random

from kernellab.comparison.estimate import Estimate
from kernellab.comparison.pairs import judge


def test_an_interval_excludes_1_exactly_where_the_verdict_says_so():
    rng = random.Random(2)
    for dof in (None, 3, 9):
        estimates = [Estimate(rng.choice([0, 0.002, 0.01, -0.02]) + rng.gauss(0, 0.002), 0.002, dof) for _ in range(50)]
        for estimate, verdict in zip(estimates, judge(estimates), strict=True):
            assert verdict.low < math.exp(estimate.logarithm) < verdict.high
            assert (verdict.verdict == "slower") == (verdict.low > 1)
            assert (verdict.verdict == "faster") == (verdict.high < 1)
            assert bool(verdict.reason) == (verdict.verdict == "not resolved")


def test_without_a_hint_of_the_scatter_an_interval_stays_finite():
    (verdict,) = judge([Estimate(0.0, 1e6, 1)])
    assert verdict.verdict == "not resolved"
    assert math.isfinite(verdict.high)


def test_nothing_to_judge_is_no_error():
    assert judge([]) == []
    assert judge([None])[0].verdict == "not resolved"
