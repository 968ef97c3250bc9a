"""The script that counts false alarms and misses of comparisons."""

import math
import random

import pytest

from support.benchmarks import load_script
from support.comparisons import run, variation
from support.records import result


@pytest.fixture(scope="module")
def script():
    return load_script("compare")


def test_simulated_slowdowns_are_found_where_times_vary_little(script):
    line = script.simulate(8, 0.0016, known=True)
    assert (line["found"], line["slower"]) == (8, 0)
    assert script.simulate(8, 0.0016, known=False)["found"] < 8


def test_pairs_of_records_are_compared_as_they_are_and_with_the_slowdown(script, monkeypatch, capsys):
    rng = random.Random(1)

    def made(op, impl, factor=1.0):
        us = 127.0 * factor * math.exp(rng.gauss(0, 0.001))
        return {**result(impl, [us + us * n / 100_000 for n in range(20)]), "op": op}

    def record():
        names = [(op, impl) for op in ("gelu", "silu") for impl in ("shipped", "pytorch")]
        return run(*(made(*name) for name in names), made("gelu", "slowed", 1.03))

    monkeypatch.setattr(script, "load_variation", lambda machine: variation())
    document = script.measured_pairs([record() for _ in range(7)])
    assert (document["pairs"], document["without_slower"], document["found"]) == (3, 3, 3)
    assert document["others_slower"] == 0
    assert document["measured_slowdown"] == pytest.approx(0.03, abs=0.005)
    assert [line["impl"] for line in document["results"]] == ["shipped", "pytorch"] * 2
    assert "`slower` in 3 of 3 pairs" in capsys.readouterr().out
