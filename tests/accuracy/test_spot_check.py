"""Judging sampled results after the calls."""

import torch

from kernellab.accuracy.outputs import Wrong
from kernellab.accuracy.spot_check import SpotCheck, take_again, take_sample

RIGHT = torch.randn(64, 128, generator=torch.Generator().manual_seed(0))


def spot(max_error=4.0, rowwise=False):
    return SpotCheck((RIGHT.double(),), (RIGHT,), (max_error,), rowwise=rowwise)


def test_right_results_pass_and_others_do_not():
    other = take_sample((RIGHT.roll(1, 0),))
    for rowwise in (False, True):
        assert spot(rowwise=rowwise).find_wrong([take_sample((RIGHT,)), take_sample((RIGHT.clone(),))]) is None
        wrong = spot(rowwise=rowwise).find_wrong([take_sample((RIGHT,)), other])
        assert isinstance(wrong, Wrong)
        assert "of the compared values are wrong" in str(wrong)


def test_each_sample_has_places_of_its_own():
    first, second = take_sample((RIGHT,)), take_sample((RIGHT,))
    assert first.seed != second.seed
    assert not torch.equal(first.values[0], second.values[0])


def test_a_result_that_is_right_only_later_came_late():
    early = torch.zeros_like(RIGHT)
    sample = take_again(take_sample((early,)), (RIGHT,))
    assert "came late" in str(spot().find_wrong([sample]))


def test_an_error_as_large_as_the_check_found_passes():
    off = RIGHT * (1 + 50 * torch.finfo(torch.float32).eps)
    assert spot().find_wrong([take_sample((off,))]) is not None
    assert spot().find_wrong([take_sample((off,))], checked_error=60.0) is None


def test_nan_and_integers_are_compared_by_equality():
    with_nan = torch.where(RIGHT > 1, torch.nan, RIGHT)
    check = SpotCheck((with_nan.double(),), (with_nan,), (4.0,), rowwise=False)
    assert check.find_wrong([take_sample((with_nan.clone(),))]) is None
    assert check.find_wrong([take_sample((torch.full_like(RIGHT, torch.nan),))]) is not None
    indices = torch.arange(1000)
    check = SpotCheck((indices.double(),), (indices,), (0.0,), rowwise=False)
    assert check.find_wrong([take_sample((indices,))]) is None
    assert check.find_wrong([take_sample((indices + 1,))]) is not None
