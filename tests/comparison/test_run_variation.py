"""How much times vary from run to run: taken from what was measured, and never from a damaged file."""

import math

import pytest

from kernellab.comparison.run_variation import RunVariation, known_variation, larger, with_own_scatter
from support.comparisons import variation

H200 = variation(cases=[(127.0, 0.0016), (5.0, 0.014)])


@pytest.mark.parametrize(
    ("us", "relative"),
    [(127.0, 0.0016), (5.0, 0.014), (5000.0, 0.0016), (2.5, 0.028), (math.sqrt(127 * 5), math.sqrt(0.0016 * 0.014))],
)
def test_short_times_vary_more_than_long_ones(us, relative):
    known = known_variation(H200, "clock", "cold", us)
    assert (known.relative, known.dof, known.source) == (pytest.approx(relative), 9, "measured")


def test_another_state_of_the_cache_is_better_than_nothing_and_another_timer_is_not():
    assert known_variation(H200, "clock", "warm", 127.0).source == "measured"
    assert known_variation(H200, "host", "cold", 127.0) == RunVariation(0.01, None, "assumed")


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        {},
        {"machine": "m", "cases": None},
        variation(runs=1),
        variation(cases=[]),
        variation(cases=[(None, 0.001)]),
        variation(cases=[(100.0, -1.0)]),
        variation() | {"runs": "10"},
    ],
)
def test_without_a_sound_measurement_it_is_assumed(damaged):
    assert known_variation(damaged, "clock", "cold", 127.0) == RunVariation(0.01, None, "assumed")


def test_cases_without_a_time_are_ignored():
    known = known_variation(variation(cases=[(None, 0.5), (127.0, 0.002)]), "clock", "cold", 127.0)
    assert known.relative == pytest.approx(0.002)


def test_of_two_machines_the_larger_variation_counts():
    measured, assumed = RunVariation(0.002, 9, "measured"), RunVariation(0.01, None, "assumed")
    assert larger(measured, assumed) == assumed
    assert larger(measured, RunVariation(0.003, 4, "measured")) == RunVariation(0.003, 4, "measured")


def test_several_runs_show_their_own_scatter():
    measured, assumed = RunVariation(0.002, 9, "measured"), RunVariation(0.01, None, "assumed")
    wide, narrow = [[0.0, 0.1, -0.1], [0.0, 0.1, -0.1]], [[0.0, 0.001, -0.001], [0.0, 0.001, -0.001]]
    assert with_own_scatter(measured, [[0.0], [0.1]]) == measured
    assert with_own_scatter(measured, wide).relative == pytest.approx(0.1)
    pooled = with_own_scatter(measured, narrow)
    assert (pooled.dof, pooled.source) == (13, "measured")
    assert 0.001 < pooled.relative < 0.002
    assert with_own_scatter(assumed, narrow) == RunVariation(pytest.approx(0.001), 4, "runs")
    assert with_own_scatter(assumed, [[0.0, 0.001], [0.0]]) == assumed
