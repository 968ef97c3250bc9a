"""What a rule's estimate of a gain comes to beside a measured time."""

import pytest

from kernellab.findings.finding import capped, gained

LEAST = 1.15


@pytest.mark.parametrize(
    ("estimate", "headroom", "gain"),
    [
        (1.2, None, 1.2),  # not timed: the model's word
        (1.1, None, None),
        (3.0, 4.0, 4.0),
        (3.0, 1.1, None),  # next to nothing is left to gain
        (1.1, 2.0, None),  # what the model does not see, a measurement does not make
        (1.15, 9.0, 1.15),
    ],
)
def test_a_gain_is_worth_telling_by_the_model_and_by_what_is_left(estimate, headroom, gain):
    assert gained(estimate, headroom, LEAST) == gain


def test_a_cap_takes_away_and_never_adds():
    assert [capped(3.0, headroom) for headroom in (None, 4.0, 2.0)] == [3.0, 3.0, 2.0]
