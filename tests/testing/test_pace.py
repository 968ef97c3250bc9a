"""How slow is too slow."""

import pytest

from kernellab.record import verdict
from kernellab.testing.pace import Pace, pace_beside
from support.records import record, result, timed


def make(low, factor, high, allowed=1.02, **more):
    return Pace("mine", "theirs", factor, low, high, allowed, **more)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.03, 1.05, "slower"),
        (1.01, 1.05, "not resolved"),
        (0.99, 1.01, "not slower"),
        (1.015, 1.019, "not slower"),  # slower for certain, and allowed
        (0.5, 3.0, "not resolved"),
        (1.02, 1.03, "not resolved"),  # not beyond what is allowed at the lower end
    ],
)
def test_only_what_is_certain_is_slower(low, high, expected):
    assert make(low, (low + high) / 2, high).verdict == expected


def test_few_rounds_resolve_nothing():
    assert make(2.0, 2.0, 2.0, enough_rounds=False).verdict == "not resolved"


def test_it_is_put_into_words():
    assert make(1.3, 1.35, 1.41).summary == "1.35× as long as theirs (1.3–1.41): slower"
    assert make(1.3, 1.35, 1.41).sentence == (
        "mine takes 1.35 times as long as theirs (99 % interval 1.3 to 1.41); 1.020 is allowed"
    )


def test_a_pace_is_that_of_paired_rounds():
    slow, fast = verdict.derive(record(timed("slow", 200.0), timed("fast", 100.0)))["results"]
    found = pace_beside(slow, fast, "forward", by=0.5)
    assert (found.factor, found.allowed) == (pytest.approx(2.0, rel=0.01), 1.5)
    assert found.low <= found.factor <= found.high
    assert found.verdict == "slower"
    back = pace_beside(fast, slow, "forward", by=0.0)
    assert back.factor == pytest.approx(1 / found.factor)
    assert back.verdict == "not slower"


def test_what_was_not_timed_has_no_pace():
    mine, other = verdict.derive(record(timed("a", 10.0), result("b", status="skipped", reason="r")))["results"]
    assert pace_beside(mine, other, "forward", 0.0) is None
    assert pace_beside(other, mine, "forward", 0.0) is None
    assert pace_beside(mine, mine, "backward", 0.0) is None
