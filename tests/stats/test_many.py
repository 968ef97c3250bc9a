"""Many tests at once: few false alarms among all, and no real difference lost for company."""

import random

import pytest

from kernellab.stats.many import step_down_levels


def significant(probabilities, error=0.01):
    levels = step_down_levels(probabilities, error)
    return [p <= level for p, level in zip(probabilities, levels, strict=True)]


def test_one_test_has_the_whole_level():
    assert step_down_levels([0.5], 0.01) == [0.01]
    assert step_down_levels([], 0.01) == []


def test_each_significant_test_leaves_more_to_the_others():
    assert step_down_levels([0.004, 0.2, 0.0001, 0.006], 0.01) == pytest.approx(
        [0.01 / 3, 0.01 / 3, 0.01 / 4, 0.01 / 3]
    )
    assert significant([0.003, 0.2, 0.0001, 0.0049]) == [True, False, True, True]


def test_what_is_behind_a_test_that_failed_is_not_significant():
    assert significant([0.0051, 0.0052]) == [False, False]


def test_a_false_alarm_among_ten_is_as_rare_as_promised():
    rng, alarms = random.Random(1), 0
    for _ in range(4000):
        alarms += any(significant([rng.random() for _ in range(10)], 0.05))
    assert 0.035 < alarms / 4000 < 0.062
