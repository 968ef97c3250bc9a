"""From a rule's estimate to the gain that is reported, where the headroom is known."""

import pytest

from kernellab.findings.gain import cap_at_headroom, correct_by_headroom, gain_above

THRESHOLD = 1.15


@pytest.mark.parametrize(
    ("estimate", "headroom", "gain"),
    [
        (3.0, None, 3.0),  # not timed
        (3.0, 4.0, 4.0),  # within the model's error: the flaw accounts for all of the headroom
        (8.0, 4.0, 4.0),  # no finding gains more than the headroom
        (1.5, 6.0, 1.5),  # something else costs the rest
    ],
)
def test_a_headroom_within_the_models_error_replaces_the_estimate(estimate, headroom, gain):
    assert correct_by_headroom(estimate, headroom) == gain


@pytest.mark.parametrize(
    ("estimate", "headroom", "gain"),
    [
        (1.2, None, 1.2),
        (1.1, None, None),
        (3.0, 4.0, 4.0),
        (3.0, 1.1, None),  # almost no headroom is left
        (1.1, 2.0, None),  # a measurement does not reveal what the model does not see
        (1.15, 9.0, 1.15),
    ],
)
def test_a_gain_must_reach_the_threshold_in_the_model_and_in_the_headroom(estimate, headroom, gain):
    assert gain_above(THRESHOLD, estimate, headroom) == gain


@pytest.mark.parametrize(("headroom", "gain"), [(None, 3.0), (4.0, 3.0), (2.0, 2.0)])
def test_an_estimate_without_a_time_model_is_capped_and_never_raised(headroom, gain):
    assert cap_at_headroom(3.0, headroom) == gain
