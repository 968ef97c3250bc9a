"""Binding sizes to dims."""

import pytest

from kernellab.base.errors import UserError
from kernellab.declaration.expansion import bind_shape


def test_the_ellipsis_takes_the_leading_sizes():
    assert bind_shape((2, 3, 4), ["...", "N"], 2) == {"...": (2, 3), "N": 4}
    assert bind_shape((4,), ["...", "N"], 2) == {"...": (), "N": 4}
    with pytest.raises(UserError, match="too short"):
        bind_shape((), ["...", "N"], 2)


def test_named_dims_bind_in_order_and_defaults_may_be_left_out():
    assert bind_shape((8, 9), ["M", "V", "K"], 2) == {"M": 8, "V": 9}
    with pytest.raises(UserError, match="has 1 sizes"):
        bind_shape((8,), ["M", "V", "K"], 2)
