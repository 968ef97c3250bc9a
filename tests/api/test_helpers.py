"""Helpers for notebooks: closures over random matrices, two functions compared."""

import pytest
import torch

import kernellab as kl


def test_run_operation_makes_closures_over_random_matrices():
    assert kl.run_operation1(16, lambda x: x.shape)() == (16, 16)
    a = kl.run_operation2(8, lambda x, y: (x, y))()
    assert not torch.equal(*a)
    assert kl.get_device().type in ("cpu", "cuda")


def test_check_equal_accepts_rounding_and_refuses_difference():
    gelu = kl.ops.gelu
    kl.check_equal(gelu["manual"], gelu["torch"], shape=(64, 64))
    kl.check_equal(gelu["manual"], gelu["torch"], shape=(64, 64), dtype=torch.bfloat16, seed=3)
    for wrong in (torch.zeros_like, lambda x: gelu(x) * 1.0001, lambda x: gelu(x) + float("nan")):
        with pytest.raises(AssertionError):
            kl.check_equal(gelu["manual"], wrong, shape=(64, 64))
    with pytest.raises(AssertionError, match="differ in form"):
        kl.check_equal(lambda x: x, lambda x: x[:1])


def test_check_equal_compares_directly_where_float64_is_not_taken():
    def single_only(x):
        if x.dtype == torch.float64:
            raise TypeError("float32 only")
        return x * x

    kl.check_equal(single_only, torch.square, shape=(32,))
    with pytest.raises(AssertionError):
        kl.check_equal(single_only, torch.abs, shape=(32,))
