"""Layouts of tensors in guarded memory."""

import pytest
import torch

from kernellab.trials.guard_bands import GuardedMemory
from kernellab.trials.layouts import DEEP_LAYOUTS, LAYOUTS, apply_layout


@pytest.mark.parametrize("layout", [*LAYOUTS, *DEEP_LAYOUTS, "channels last"])
def test_a_layout_keeps_the_values(layout):
    x = torch.randn(2, 3, 5, 8)
    laid = apply_layout(x, layout, GuardedMemory())
    assert laid.shape == x.shape
    if "expanded" not in layout:
        assert torch.equal(laid, x)
    assert laid.stride() != x.stride() or laid.storage_offset() > 0


def test_deep_layouts_are_those_of_a_transposed_and_of_a_sliced_tensor():
    x = torch.randn(3, 5, 8)
    swapped = apply_layout(x, "first two dims swapped", GuardedMemory())
    assert swapped.stride() == torch.empty(5, 3, 8).transpose(0, 1).stride()
    sliced = apply_layout(x, "second dim sliced", GuardedMemory())
    assert sliced.stride() == torch.empty(3, 7, 8)[:, 1:-1].stride()
    assert sliced.stride() != x.stride()


def test_the_misaligned_layout_is_misaligned_and_the_contiguous_one_starts_at_16_bytes():
    x = torch.randn(8, 64)
    assert apply_layout(x, "misaligned", GuardedMemory()).data_ptr() % 16 == 4
    assert apply_layout(x, "contiguous", GuardedMemory()).data_ptr() % 16 == 0


def test_the_memory_around_the_elements_is_poisoned():
    memory = GuardedMemory()
    laid = apply_layout(torch.ones(4, 8), "sliced columns", memory)
    whole = laid.as_strided((laid.untyped_storage().nbytes() // 4,), (1,), 0)
    assert whole.isnan().sum() == whole.numel() - 32 > 12
    assert not memory.overwritten()
