"""How the MLP's time grows with its sizes, in sentences and tables."""

import pytest

from kernellab.reporting.profiles import scaling
from kernellab.workloads.mlp_setup import MlpSetup

SETUP = MlpSetup(dim=64, layers=2, batch=4, steps=9)


def curve(exponent, sizes=(8, 16, 32, 64, 128), by="dim"):
    times = [(size, size**exponent) for size in sizes]
    return {
        "by": by,
        "points": [
            {"size": size, "median_us": time, "low_us": time * 0.99, "high_us": time * 1.01} for size, time in times
        ],
    }


@pytest.mark.parametrize(
    ("exponent", "kind"), [(2, "faster than linear"), (1, ", linear"), (0.5, "slower than linear")]
)
def test_the_exponent_comes_first(exponent, kind):
    text = scaling.lines(scaling.fit_curves(SETUP, [curve(exponent)]))
    assert f"dim^{exponent:.2f}" in text[0]
    assert kind in text[0]


def test_sizes_that_stay_fixed_come_last():
    text = scaling.lines(scaling.fit_curves(SETUP, [curve(2)]))
    assert text[-1] == "fixed: layers 2, batch 4, steps 9; optimizer none"
    both = scaling.lines(scaling.fit_curves(SETUP, [curve(2), curve(1, by="batch")]))
    assert both[-1] == "while another varies: dim 64, layers 2, batch 4, steps 9; optimizer none"


def test_too_few_sizes_give_times_without_an_exponent():
    study = scaling.fit_curves(SETUP, [curve(2, sizes=(8, 16, 32))])
    assert study.to_json()["scaling"][0]["fit"] is None
    text = scaling.lines(study)
    assert "too few sizes" in text[0]
    assert [line.split()[0] for line in text[2:5]] == ["8", "16", "32"]
