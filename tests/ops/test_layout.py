"""Tensors of any strides viewed as rows and columns."""

import torch

from kernellab.ops.layout import elementwise, last_dim


def test_dims_are_merged_as_far_as_the_strides_allow():
    x = torch.randn(4, 6, 8)
    assert elementwise(x)[2] == (1, 192, 0, 1, 0, 1)
    assert elementwise(x.permute(2, 0, 1))[2].flat  # dense in another order is still contiguous memory
    assert elementwise(x[:, :, :5])[2] == (24, 5, 8, 1, 5, 1)
    source, _, size = elementwise(x[:, 1:4, :5])
    assert size.flat
    assert source.data_ptr() != x.data_ptr()  # three dims: copied first
    assert last_dim(x[:, :, ::2])[2] == (24, 4, 8, 2, 4, 1)
