"""Tensors of any strides viewed as rows and columns."""

import torch

from kernellab.ops.layout import elementwise, last_dim


def test_dims_are_merged_as_far_as_the_strides_allow():
    x = torch.randn(4, 6, 8)
    assert elementwise(x)[1] == (1, 192, ((0, 1), (0, 1)))
    assert elementwise(x.permute(2, 0, 1))[1].flat  # dense in another order is still contiguous memory
    assert elementwise(x[:, :, :5])[1] == (24, 5, ((8, 1), (5, 1)))
    (source, _), grid = elementwise(x[:, 1:4, :5])
    assert grid.flat
    assert source.data_ptr() != x.data_ptr()  # three dims: copied first
    assert last_dim(x[:, :, ::2])[1] == (24, 4, ((8, 2), (4, 1)))


def test_several_tensors_are_walked_through_together():
    x, upstream = torch.randn(4, 6), torch.ones(()).expand(4, 6)
    assert elementwise(x, x)[1].flat
    (dy, given, dx), grid = elementwise(upstream, x)
    assert (dy.data_ptr(), given.data_ptr()) == (upstream.data_ptr(), x.data_ptr())  # an expanded one is not copied
    assert grid == (1, 24, ((0, 0), (0, 1), (0, 1)))
    assert dx.stride() == x.stride()  # an expanded input decides nothing
    tensors, grid = elementwise(x.t(), x.view(6, 4), outputs=2)
    assert [t.stride() for t in tensors] == [(1, 6), (4, 1), (1, 6), (1, 6)]  # the first decides
    assert grid == (4, 6, ((6, 1), (1, 4), (6, 1), (6, 1)))
    assert elementwise(x[:0], x[:0])[1].rows * elementwise(x[:0], x[:0])[1].cols == 0
