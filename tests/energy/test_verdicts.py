"""Verdicts on energies: from blocks alone."""

import random

import pytest

from kernellab.energy.rounds import not_measured
from kernellab.energy.verdicts import compare_energy, energy_of, obstacles


def energy(joules, **more):
    count = len(joules)
    return {
        **not_measured("x"),
        "status": "ok",
        "reason": None,
        "counter": "nvml",
        "joules": list(joules),
        "blocks": list(range(count)),
        "us": [1000.0] * count,
        "watts": [1000 * value for value in joules],
        "clocks_mhz": [1500.0] * count,
        "seconds": [0.3] * count,
        "resolution": [0.003] * count,
        "idle_w": 100.0,
        **more,
    }


def scattered(mean, seed=0, noise=0.004, count=12):
    rng = random.Random(seed)
    return [mean * rng.lognormvariate(0, noise) for _ in range(count)]


def verdict(mine, theirs, **more):
    return compare_energy(energy(mine, **more), energy(theirs), "b")["verdict"]


def test_the_median_has_an_interval():
    judged = energy_of(energy([0.40, 0.41, 0.42, 0.43] * 3))
    assert judged["median_j"] == pytest.approx(0.415)
    assert (judged["low_j"], judged["high_j"]) == (0.40, 0.43)
    assert judged["idle_share"] == pytest.approx(100 / 415)
    assert energy_of(not_measured("no counter")) is None
    assert energy_of(None) is None


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(0.8, "less"), (0.97, "less"), (1.0, "same"), (1.03, "more"), (1.2, "more"), (0.99, "not resolved")],
)
def test_a_difference_beyond_a_percent_is_resolved(factor, expected):
    assert verdict(scattered(factor, 1), scattered(1.0, 2)) == expected


def test_less_than_a_percent_is_never_claimed():
    assert verdict([0.992] * 12, [1.0] * 12) == "same"
    assert verdict([0.9899] * 12, [1.0] * 12) == "less"


def test_energies_are_paired_by_round():
    warming = [1 + at / 10 for at in range(12)]
    ratio = compare_energy(energy([0.8 * value for value in warming]), energy(warming), "b")
    assert (ratio["median"], ratio["verdict"], ratio["over"]) == (pytest.approx(0.8), "less", "b")


def test_nothing_is_resolved_with_few_blocks_or_beside_other_processes():
    assert verdict([0.8] * 7, [1.0] * 7) == "not resolved"
    assert verdict([0.8] * 12, [1.0] * 12, contended="1 other process used the GPU") == "not resolved"


def test_equal_energies_are_hardly_ever_called_different():
    verdicts = [verdict(scattered(1, seed, 0.02), scattered(1, seed + 10_000, 0.02)) for seed in range(500)]
    assert sum(word in ("less", "more") for word in verdicts) <= 5


def test_reasons_are_said_once():
    assert obstacles([not_measured("no counter"), None, not_measured("no counter"), energy([1.0])]) == ["no counter"]
