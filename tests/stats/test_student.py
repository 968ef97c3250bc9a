"""Student's t: as in printed tables."""

import statistics

import pytest

from kernellab.stats.student import quantile, t_quantile, tail_probability


@pytest.mark.parametrize(
    ("dof", "t"),
    [(1, 63.657), (2, 9.925), (3, 5.841), (4, 4.604), (5, 4.032), (10, 3.169), (11, 3.106), (30, 2.750), (120, 2.617)],
)
def test_quantiles_of_students_t_agree_with_tables(dof, t):
    assert t_quantile(dof, 0.99) == pytest.approx(t, abs=6e-4)


def test_quantiles_at_95_percent_agree_with_tables():
    assert t_quantile(7, 0.95) == pytest.approx(2.365, abs=6e-4)
    assert t_quantile(1000, 0.95) == pytest.approx(1.962, abs=6e-4)


@pytest.mark.parametrize("dof", [1, 2, 9, 10, 79, None])
def test_a_quantile_has_the_probability_it_was_asked_for(dof):
    for error in (0.05, 0.01, 1e-4, 1e-6):
        assert tail_probability(quantile(dof, 1 - error), dof) == pytest.approx(error, rel=1e-6)
    assert tail_probability(0.0, dof) == pytest.approx(1)
    assert tail_probability(-3.0, dof) == tail_probability(3.0, dof)


def test_with_a_known_scatter_it_is_the_normal_distribution():
    assert quantile(None, 0.99) == pytest.approx(statistics.NormalDist().inv_cdf(0.995))
    assert t_quantile(2000, 0.99) == pytest.approx(quantile(None, 0.99), rel=1e-3)


def test_a_value_beyond_all_doubt_has_probability_zero():
    assert tail_probability(1e9, None) == 0
    assert tail_probability(1e9, 9) == pytest.approx(0, abs=1e-12)
