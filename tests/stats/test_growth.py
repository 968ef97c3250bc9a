"""The growth exponent: right where it is known, and none where the points do not support one."""

import random

import pytest

from kernellab.stats.growth import fit

SIZES = [2.0**k for k in range(6, 15)]


def points(law, sizes=SIZES, noise=0.0, rng=None):
    measured = []
    for size in sizes:
        time = law(size) * (rng.lognormvariate(0, noise) if rng else 1)
        measured.append((size, time, time * (1 - noise / 4), time * (1 + noise / 4)))
    return measured


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.5, 3.0, -0.5])
def test_an_exact_power_law_gives_its_exponent_and_no_change(exponent):
    growth = fit(points(lambda n: 7 * n**exponent))
    assert growth.whole.exponent == pytest.approx(exponent, abs=1e-9)
    assert growth.whole.high - growth.whole.low < 1e-6
    assert growth.below is None
    assert growth.above is None


def test_a_change_is_found_where_it_is():
    growth = fit(points(lambda n: 5.0 if n <= 512 else 5.0 * (n / 512) ** 3))
    assert (growth.below.first, growth.below.last, growth.above.last) == (64, 512, 16384)
    assert growth.above.first in (512, 1024)
    assert growth.below.exponent == pytest.approx(0, abs=0.01)
    assert growth.above.exponent == pytest.approx(3, abs=0.01)


def test_noise_widens_the_interval_and_the_truth_is_inside_as_often_as_promised():
    rng, inside, widths = random.Random(1), 0, []
    for _ in range(1000):
        whole = fit(points(lambda n: n**1.5, noise=0.05, rng=rng)).whole
        inside += whole.low <= 1.5 <= whole.high
        widths.append(whole.high - whole.low)
    assert inside >= 980
    assert 0.01 < sum(widths) / len(widths) < 0.2


@pytest.mark.parametrize("count", [6, 9, 20])
def test_noise_alone_is_hardly_ever_called_a_change(count):
    rng = random.Random(count)
    sizes = [64 * 1.6**k for k in range(count)]
    changes = sum(fit(points(lambda n: n**1.0, sizes, 0.2, rng)).below is not None for _ in range(1000))
    assert changes <= 18


def test_a_noisy_change_is_found_with_its_exponents():
    rng, right = random.Random(3), 0
    for _ in range(100):
        growth = fit(points(lambda n: n**0.1 if n <= 1024 else 1024**0.1 * (n / 1024) ** 2, noise=0.03, rng=rng))
        if growth.below:
            right += growth.below.low <= 0.1 <= growth.below.high and growth.above.low <= 2 <= growth.above.high
    assert right >= 90


def test_a_small_difference_between_exponents_is_not_reported():
    assert fit(points(lambda n: n**1.0 if n <= 1024 else n * (n / 1024) ** 0.03)).below is None


@pytest.mark.parametrize("sizes", [[1, 2, 4, 64], [100, 200, 300, 400, 500, 600], [8, 8, 8, 64, 128]])
def test_too_few_sizes_or_sizes_too_close_together_give_no_fit(sizes):
    assert fit(points(lambda n: n, sizes)) is None


def test_wide_intervals_of_the_points_widen_the_interval_of_the_exponent():
    exact = [(n, t, t, t) for n, t, _, _ in points(lambda n: n)]
    vague = [(n, t, t * 0.5, t * 2) for n, t, _, _ in points(lambda n: n)]
    assert fit(exact).whole.high - fit(exact).whole.low < 1e-6
    assert fit(vague).whole.high - fit(vague).whole.low > 0.1
