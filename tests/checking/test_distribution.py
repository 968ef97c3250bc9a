"""Comparing distributions: mistakes with random numbers are found, and correct implementations are not accused."""

import pytest
import torch

from kernellab.accuracy.outputs import Wrong
from kernellab.checking.distribution import CALLS, SCALING, Draws, judge_distribution

SHAPE = (16, 64)


def bernoulli(shape, p, generator):
    return (torch.rand(shape, generator=generator) >= p).double()


class Dropout:
    """A result and a gradient with the same mask."""

    def __init__(self, p, generator, shape=SHAPE):
        self.p, self.generator, self.shape = p, generator, shape
        self.x, self.residual, self.upstream = (torch.randn(shape, generator=generator).double() for _ in range(3))

    def __call__(self, mask=None, scale=None, gradient_mask=None, gradient_scale=None):
        mask = bernoulli(self.shape, self.p, self.generator) if mask is None else mask
        scale = 1 / (1 - self.p) if scale is None else scale
        gradient_mask = mask if gradient_mask is None else gradient_mask
        gradient = self.upstream * gradient_mask * (scale if gradient_scale is None else gradient_scale)
        return self.x * mask * scale + self.residual, gradient

    def draw(self, p):
        return bernoulli(self.shape, p, self.generator)


def judge(call, reference, dtype=torch.float32):
    """Raises Wrong if the results of `call`, rounded to a dtype, have another distribution than the reference's."""
    calls = [call() for _ in range(CALLS)]
    evaluations = [reference() for _ in range(CALLS + SCALING)]
    results = []
    for number, label in enumerate(("the result: ", "the gradient of x: ")[: len(calls[0])]):
        mine = torch.stack([outputs[number].to(dtype).double().flatten() for outputs in calls])
        right = torch.stack([outputs[number].flatten() for outputs in evaluations])
        finite = torch.where(right.isfinite(), right, 0.0)
        rounding = 4 * torch.finfo(dtype).eps * torch.maximum(finite.abs().amax(0), finite.square().mean().sqrt())
        results.append(Draws(label, calls[0][number].shape, mine, right[:CALLS], right[CALLS:], rounding))
    judge_distribution(results)


def constant(dropout):
    mask = dropout.draw(dropout.p)
    return lambda: dropout(mask)


MISTAKES = {
    "the same mask in every call": (constant, "covariance of a call with the next"),
    "a wrong p": (lambda d: lambda: d(d.draw(1.2 * d.p), 1 / (1 - 1.2 * d.p)), "of all elements"),
    "a wrong rate": (lambda d: lambda: d(d.draw(1.2 * d.p)), "of all elements"),
    "no 1/(1 − p)": (lambda d: lambda: d(scale=1.0), "of all elements"),
    "no 1/(1 − p) in the gradient": (lambda d: lambda: d(gradient_scale=1.0), "the gradient of x"),
    "a mask shared by all rows": (
        lambda d: lambda: d(d.draw(d.p)[:1].expand(SHAPE)),
        "covariance of elements \\d+ apart",
    ),
    "a mask shared by the elements of a row": (
        lambda d: lambda: d(d.draw(d.p)[:, :1].expand(SHAPE)),
        "covariance of elements \\d+ apart",
    ),
    "a mask shared by four neighbours": (
        lambda d: lambda: d(d.draw(d.p).flatten()[::4].repeat_interleave(4).view(SHAPE)),
        "covariance of elements [123] apart",
    ),
    "another mask in the gradient": (
        lambda d: lambda: d(gradient_mask=d.draw(d.p)),
        "covariance of the result with the gradient of x",
    ),
    "dropped twice": (lambda d: lambda: d(d.draw(d.p) * d.draw(d.p), (1 - d.p) ** -2), "of all elements"),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("p", [0.1, 0.5])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_found(mistake, p, dtype):
    make, message = MISTAKES[mistake]
    dropout = Dropout(p, torch.Generator().manual_seed(5))
    with pytest.raises(Wrong, match=message):
        judge(make(dropout), dropout, dtype)


def test_a_mistake_in_one_row_is_found():
    dropout, average = Dropout(0.5, torch.Generator().manual_seed(5)), torch.full((1, 64), 0.5).double()
    with pytest.raises(Wrong, match="variance of all elements"):
        judge(lambda: dropout(torch.cat((dropout.draw(0.5)[:-1], average))), dropout)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("p", [0.0, 0.001, 0.1, 0.5, 0.9])
def test_a_correct_implementation_is_not_accused(p, dtype):
    for seed in range(6):
        dropout = Dropout(p, torch.Generator().manual_seed(seed), shape=[(4, 16), (1, 1), (7, 33)][seed % 3])
        judge(dropout, dropout, dtype)


def noise(generator, spread=1.0, mean=0.0, shape=(8, 32)):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3)).double()
    return lambda: (x + mean + spread * torch.randn(shape, generator=generator, dtype=torch.float64),)


def test_continuous_distributions_are_compared_too():
    generator = torch.Generator().manual_seed(1)
    judge(noise(generator), noise(generator))
    judge(noise(generator), noise(generator), torch.bfloat16)
    with pytest.raises(Wrong, match="the standardised variance of all elements is 1"):
        judge(noise(generator, spread=1.2), noise(generator))
    with pytest.raises(Wrong, match=r"standardised (mean|variance) of all elements"):
        judge(noise(generator, mean=1.5), noise(generator))


def test_nan_and_infinity_must_occur_as_often():
    generator = torch.Generator().manual_seed(1)

    def infinite(p):
        return lambda: (torch.where(torch.rand(4, 8, generator=generator) < p, torch.inf, 0.0).double(),)

    judge(infinite(0.5), infinite(0.5))
    with pytest.raises(Wrong, match=r"the share of inf at \[\d, \d\] is"):
        judge(infinite(0.1), infinite(0.5))
    with pytest.raises(Wrong, match=r"the share of NaN at"):
        judge(lambda: (infinite(0.5)()[0] * 0,), infinite(0.5))
