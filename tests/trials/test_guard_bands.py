"""Guard bands around inputs and around what is allocated during a call."""

import pytest
import torch

from kernellab.trials.guard_bands import BAND_BYTES, GuardedAllocations, GuardedMemory
from support.trying import CPU


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_write_one_element_out_of_bounds_is_detected(dtype, count):
    for distance in (-1, count):
        memory = GuardedMemory()
        memory.allocate(count, dtype, CPU).zero_()
        assert not memory.overwritten()
        block = memory._blocks[0][0].view(torch.uint8)
        start = BAND_BYTES + distance * dtype.itemsize
        block[start : start + dtype.itemsize] = 0
        assert memory.overwritten()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.empty(3, 5),
        torch.empty_like,
        lambda x: x.new_empty(7),
        lambda x: torch.empty_strided((2, 3), (1, 2)),
        lambda x: torch.empty(2, 3, 4, 4, memory_format=torch.channels_last),
    ],
)
def test_fresh_memory_has_the_usual_form_and_is_poisoned(make):
    x = torch.randn(4, 6)
    with GuardedAllocations(GuardedMemory()):
        guarded = make(x)
    usual = make(x)
    assert (guarded.shape, guarded.stride(), guarded.dtype) == (usual.shape, usual.stride(), usual.dtype)
    assert bool(guarded.isnan().all())
    assert guarded.storage_offset() == 0


def test_guarded_allocations_that_are_filled_keep_their_values():
    with GuardedAllocations(GuardedMemory()):
        assert torch.zeros(5).sum() == 0
        assert torch.full((3,), 2.5).tolist() == [2.5] * 3
        assert torch.ones_like(torch.zeros(2, dtype=torch.int32)).tolist() == [1, 1]
        assert torch.zeros(2).new_full((2,), fill_value=3).tolist() == [3, 3]
        assert torch.full((2,), True).tolist() == [True, True]


def test_filling_a_tensor_that_exists_allocates_nothing():
    x = torch.ones(5)
    with GuardedAllocations(GuardedMemory()):
        assert torch.zeros(5, out=x) is x
    assert x.sum() == 0
