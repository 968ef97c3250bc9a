"""Special values of inputs."""

import pytest
import torch

from kernellab.trials import values


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(), (1,), (64, 256), (2, 16, 16, 16), (0, 3)])
def test_large_values_overflow_when_squared_but_not_in_sums(dtype, shape):
    generator = torch.Generator().manual_seed(1)
    x = values.VALUES["large to overflow"](torch.randn(shape, generator=generator, dtype=dtype), generator)
    top = torch.finfo(dtype).max
    assert not x.numel() or bool((x.abs().double() / top).sum() <= 0.1251)
    assert not x.numel() or bool(x.square().isinf().any())
    if x.dim() == 4:  # never two that cancel in a sum over one dim
        forwards, backwards = x.float().sum(1), x.float().flip(1).sum(1)
        if dtype != torch.float64:
            assert torch.allclose(forwards, backwards, rtol=1e-4, atol=0)


def test_large_values_stand_at_the_end_of_every_dim():
    x = values.VALUES["large at the end"](torch.randn(3, 5, 7), torch.Generator())
    assert all(bool((x.select(dim, -1).abs() == 30).all()) for dim in range(3))
    assert bool((x[:-1, :-1, :-1].abs() < 10).all())
    row = values.VALUES["large at the end"](torch.randn(2, 70_000), torch.Generator())
    assert row.amax(-1).tolist() == [30.0, 30.0] or row[:, -1].abs().tolist() == [30.0, 30.0]


def test_exp_of_the_difference_from_a_far_larger_value_at_the_end_overflows():
    row = values.VALUES["far larger at the end"](torch.randn(2, 70_000), torch.Generator())[0]
    assert bool((row[-1] - row[:-1].amax()).exp().isinf())
    assert bool(row.double().exp().isfinite().all()), "the oracle has a number there"
    assert all(row.to(dtype)[-1] == row[-1] for dtype in (torch.float16, torch.bfloat16)), "no rounding"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_values_far_from_0_are_still_apart(dtype):
    x = values.VALUES["far from 0"](torch.randn(64, 64).to(dtype), torch.Generator()).double()
    assert x.mean() > 6
    assert x.std() == pytest.approx(1, abs=0.1)


def test_large_negative_values_are_so_far_below_0_that_exp_is_0():
    x = values.VALUES["large negative"](torch.randn(64, 64), torch.Generator())
    assert bool((x.exp() == 0).all())
    assert bool((x.half().float() - x).abs().max() < 1)
