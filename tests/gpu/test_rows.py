"""Both passes of ops along the last dim on a real GPU, at widths where each row begins at another offset."""

import pytest
import torch

import kernellab as kl
from support.row_ops import assert_as_accurate_as_torch, both_passes, inputs_of

pytestmark = pytest.mark.gpu

OPS = ("softmax", "log_softmax", "layer_norm", "rms_norm", "add_rms_norm")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
# Of which a warp, a block, a cluster of blocks and a loop take a row.
@pytest.mark.parametrize("cols", [259, 1031, 5003, 50257, 300_007])
@pytest.mark.parametrize("impl", ["triton", "cuda"])
@pytest.mark.parametrize("name", OPS)
def test_rows_that_begin_anywhere(name, impl, cols, dtype):
    inputs = inputs_of(name, 700 if cols < 10_000 else 150, cols, dtype, device="cuda")
    op = getattr(kl.ops, name)
    assert_as_accurate_as_torch(op, inputs, both_passes(op, impl, inputs))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
# So many rows that blocks which stay have several; the last ones are not enough for all groups of a block.
@pytest.mark.parametrize(("rows", "cols"), [(5000, 4096), (601, 12288), (301, 16384), (301, 40_000), (131, 131_072)])
@pytest.mark.parametrize("name", OPS)
def test_aligned_rows_of_which_blocks_take_several(name, rows, cols, dtype):
    inputs = inputs_of(name, rows, cols, dtype, device="cuda")
    op = getattr(kl.ops, name)
    assert_as_accurate_as_torch(op, inputs, both_passes(op, "cuda", inputs))


@pytest.mark.parametrize(("rows", "cols"), [(700, 5003), (700, 16384), (131, 65536)])
@pytest.mark.parametrize("name", OPS)
def test_gradients_are_the_same_each_time(name, rows, cols):
    inputs = inputs_of(name, rows, cols, torch.bfloat16, device="cuda")
    first, second = (both_passes(getattr(kl.ops, name), "cuda", inputs) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
