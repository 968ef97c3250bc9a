"""The error of a sum: estimated from its running sums, and what float32 does."""

import numpy as np
import pytest
import torch

from kernellab.accuracy.accumulation import TermCounter, running_sums


def root_of_squares(sums, dim=-1):
    return sums.square().sum(dim).sqrt()


def test_running_sums_of_reductions():
    x = torch.randn(5, 4, 3, dtype=torch.float64)
    whole = root_of_squares(x.flatten().cumsum(0))
    over_two = root_of_squares(x.permute(2, 0, 1).flatten(1).cumsum(-1))
    torch.testing.assert_close(running_sums("sum", (x,), {}), whole)
    torch.testing.assert_close(running_sums("mean", (x,), {}), whole / 60)
    torch.testing.assert_close(running_sums("sum", (x, [1, 0]), {}), over_two)
    torch.testing.assert_close(running_sums("sum", (x, [-1], True), {}), root_of_squares(x.cumsum(-1)).unsqueeze(-1))
    cumulated = running_sums("cumsum", (x, 1), {})
    torch.testing.assert_close(cumulated[:, -1], root_of_squares(x.cumsum(1), 1))


@pytest.mark.parametrize("terms", [1, 7, 31])
def test_running_sums_of_products(terms):
    a, b = torch.randn(3, terms, dtype=torch.float64), torch.randn(terms, 2, dtype=torch.float64)
    expected = root_of_squares((a[:, :, None] * b[None]).cumsum(1), 1)
    torch.testing.assert_close(running_sums("mm", (a, b), {}), expected)
    torch.testing.assert_close(running_sums("addmm", (torch.zeros(2), a, b), {}), expected)
    torch.testing.assert_close(running_sums("bmm", (a[None], b[None]), {}), expected[None])
    torch.testing.assert_close(running_sums("mv", (a, b[:, 0]), {}), expected[:, 0])
    torch.testing.assert_close(running_sums("dot", (a[0], b[:, 0]), {}), expected[0, 0])


def test_operators_that_add_nothing_have_no_running_sums():
    assert running_sums("exp", (torch.ones(3),), {}) is None
    assert running_sums("sum", (torch.ones(0),), {}) is None


@pytest.mark.parametrize("shift", [0.0, 1.0, 100.0])
def test_adding_one_after_another_in_float32_is_off_by_about_the_estimate(shift):
    ratios = []
    for seed in range(20):
        x = torch.randn(4096, generator=torch.Generator().manual_seed(seed)) + shift
        sequential = float(np.add.accumulate(x.numpy())[-1])  # in float32, without partial sums
        estimate = torch.finfo(torch.float32).eps * float(running_sums("sum", (x,), {}))
        ratios.append(abs(sequential - float(x.double().sum())) / estimate)
    assert max(ratios) < 2  # what counts as explained is twice the estimate
    assert max(ratios) > 0.1


def test_terms_are_counted():
    def count(fn):
        with TermCounter() as counter:
            fn()
        return counter.most

    x = torch.randn(6, 8)
    assert count(lambda: x.exp() * 2) == 1
    assert count(lambda: x.std(0)) == 6
    assert count(lambda: x.sum()) == 48
    assert count(lambda: x @ x.T) == 8
    assert count(lambda: x[0]) == 1
