"""Input sets: their contents, swaps, checksums and version counters."""

import pytest
import torch

from kernellab.timing.input_sets import InputSets
from support.timing import two_content_sets


def test_neighbouring_sets_differ_and_contents_are_swapped_in_place():
    sets = two_content_sets()
    before = [sets[i]["x"].clone() for i in range(4)]
    addresses = [sets[i]["x"].data_ptr() for i in range(4)]
    assert not torch.equal(before[0], before[1])
    assert torch.equal(before[0], before[2])
    assert len(set(addresses)) == 4
    sets.swap()
    assert [sets[i]["x"].data_ptr() for i in range(4)] == addresses
    assert torch.equal(sets[0]["x"], before[1])
    assert [sets.content_of(i) for i in range(4)] == [1, 0, 1, 0]


def test_one_changed_bit_is_detected_and_can_be_restored():
    sets = two_content_sets()
    assert bool(sets.intact(1))
    sets[1]["x"][-1] = torch.nextafter(sets[1]["x"][-1], torch.tensor(9.0))
    assert not bool(sets.intact(1))
    assert bool(sets.intact(0))
    sets.restore(1)
    assert bool(sets.intact(1))


def test_a_change_before_a_swap_is_reported_once():
    sets = two_content_sets()
    sets.swap()
    assert not sets.changed_before_swap()
    sets[2]["x"][0] += 1
    sets.swap()
    assert sets.changed_before_swap()
    assert not sets.changed_before_swap()


def test_permuted_rows_are_detected():
    sets = InputSets([{"x": torch.randn(8, 256)}])
    sets.grow_to(1)
    sets[0]["x"].copy_(sets[0]["x"].flip(0))
    assert not bool(sets.intact(0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8, torch.float64, torch.bool])
def test_checksums_work_for_every_width_and_odd_sizes(dtype):
    sets = InputSets([{"x": torch.ones(13, dtype=dtype)}])
    sets.grow_to(1)
    assert bool(sets.intact(0))
    sets[0]["x"][12] = 0
    assert not bool(sets.intact(0))


def test_bumping_versions_changes_no_value():
    sets = two_content_sets()
    version, values = sets[0]["x"]._version, sets[0]["x"].clone()
    sets.bump_versions()
    assert sets[0]["x"]._version > version
    assert torch.equal(sets[0]["x"], values)
