"""Whether random results have the distribution of the reference's, where an implementation draws its own numbers.

Each call of the implementation is paired with an evaluation of the reference at another seed. If both have the same
distribution, exchanging the two of a pair changes nothing: for any number that is computed of each, the difference d is
as likely positive as negative. By Hoeffding's inequality the sum of such differences exceeds z·√(Σd²) with probability
at most 2·exp(−z²/2), whatever the distribution is and however few calls there are. All numbers that are compared share
`ERROR_LEVEL`.

A correct implementation rounds. A value that the reference takes more than once, such as that of an element which
dropout drops, is recognised within rounding. What rounding other values can do to a number is subtracted from its
difference.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from kernellab.accuracy.outputs import Wrong

CALLS = 256  # of an implementation, and evaluations of the reference to compare them with
SCALING = 64  # further evaluations, from which the mean and the spread of each element are estimated
ERROR_LEVEL = 1e-8  # the probability that a correct implementation is found wrong at a trial
_CLEAR_SPREAD = 4.0  # in roundings: an element that varies by less says nothing about the random numbers
_NONFINITE: tuple[tuple[str, Callable[[torch.Tensor], torch.Tensor]], ...] = (
    ("NaN", torch.isnan),
    ("inf", torch.isposinf),
    ("−inf", torch.isneginf),
)


@dataclass(frozen=True)
class Draws:
    """One result, or gradient, of every call and evaluation, in float64: each tensor is [calls, elements].

    `rounding`: how far each element of a correct implementation may be from the exact value.
    """

    label: str  # at the start of a sentence; empty where there is only one result
    shape: Sequence[int]
    calls: torch.Tensor
    evaluations: torch.Tensor
    scaling: torch.Tensor
    rounding: torch.Tensor


@dataclass(frozen=True)
class _Numbers:
    """Numbers that are computed of every call and evaluation, or of every two in a row: each tensor is [units,
    numbers].

    `name(i)` names a number. `allowance`: what rounding can do to it.
    """

    name: Callable[[int], str]
    calls: torch.Tensor
    evaluations: torch.Tensor
    allowance: torch.Tensor

    def excess(self) -> torch.Tensor:
        """For each number, the sum of differences in units of √(Σd²), beyond what rounding explains; or that of their
        signs, if it is more: where differences are alike, rounding explains less of their signs."""
        d = self.calls - self.evaluations
        allowed = self.allowance.expand_as(d)
        size = d.square().sum(0).sqrt() + allowed.square().sum(0).sqrt()
        sums = (d.sum(0).abs() - allowed.sum(0)) / size.clamp_min(torch.finfo(d.dtype).tiny)
        known = d.abs() > allowed
        unknown = (~known & (allowed > 0)).sum(0)
        signs = ((d.sign() * known).sum(0).abs() - unknown) / (known.sum(0) + unknown).clamp_min(1).sqrt()
        return torch.maximum(sums, signs)

    @property
    def worst(self) -> int:
        return int(self.excess().argmax())

    @property
    def difference(self) -> float:
        """Of the worst number."""
        return abs(float((self.calls - self.evaluations)[:, self.worst].mean()))

    def explain(self) -> str:
        mine, right = (float(t[:, self.worst].mean()) for t in (self.calls, self.evaluations))
        return f"over {CALLS} calls, {self.name(self.worst)} is {mine:.3g}, over seeds of the reference {right:.3g}"


def judge_distribution(results: Sequence[Draws]) -> None:
    """Raises Wrong with the number that differs most: of those of all elements together, else of those of two results,
    else of those of each element."""
    recognised = [_recognise(result) for result in results]
    standard = [_standardise(result) for result in recognised]
    of_elements = [n for s in standard for n in (*_of_two_calls(s), *_of_all_elements(s))]
    of_results = list(_of_two_results(standard))
    of_each = [n for result in recognised for n in _of_each_element(result)]
    count = sum(n.calls.shape[1] for n in (*of_elements, *of_results, *of_each))
    limit = math.sqrt(2 * math.log(2 * 2 * max(1, count) / ERROR_LEVEL))  # sums and signs, of either sign
    for numbers in (of_elements, of_results, of_each):
        differing = [n for n in numbers if n.calls.shape[1] and float(n.excess().max()) > limit]
        if differing:
            raise Wrong(f"values: {max(differing, key=lambda n: n.difference).explain()}")


@dataclass(frozen=True)
class _Recognised(Draws):
    """Calls in which a value is exact where it is, within rounding, one that the reference takes more than once.

    Mean and spread are those of each element. `finite`: it always is. `varies`: the spread is clearly more than
    rounding. `inexact`, [calls, elements]: the rounding of the values that were not recognised.
    """

    mean: torch.Tensor
    spread: torch.Tensor
    finite: torch.Tensor
    varies: torch.Tensor
    inexact: torch.Tensor


def _recognise(draws: Draws) -> _Recognised:
    mean, spread = draws.scaling.mean(0), draws.scaling.std(0)
    finite = torch.cat((draws.calls, draws.evaluations, draws.scaling)).isfinite().all(0)
    varies = finite & (spread > (_CLEAR_SPREAD * draws.rounding).clamp_min(torch.finfo(spread.dtype).tiny))
    seen = draws.scaling.T.sort().values
    same = torch.nn.functional.pad(seen[:, 1:] == seen[:, :-1], (1, 1))
    first = same[:, 1:] & ~same[:, :-1]  # of several that are equal
    values = torch.where(first, seen, math.inf).sort().values
    calls, rounding = draws.calls.T.contiguous(), draws.rounding.unsqueeze(1)
    below, above = (torch.searchsorted(values, calls + side * rounding, right=side > 0) for side in (-1, 1))
    recognised = varies.unsqueeze(1) & (above - below == 1)
    exact = values.gather(1, below.clamp_max(values.shape[1] - 1))
    calls, inexact = torch.where(recognised, exact, calls), torch.where(recognised, 0.0, rounding)
    given = {**vars(draws), "calls": calls.T.contiguous()}
    inexact = inexact.T.contiguous()
    return _Recognised(**given, mean=mean, spread=spread, finite=finite, varies=varies, inexact=inexact)


def _of_each_element(result: _Recognised) -> Iterator[_Numbers]:
    calls, evaluations, rounding, finite = result.calls, result.evaluations, result.inexact, result.finite
    others = (~finite).nonzero().flatten()
    for word, is_kind in _NONFINITE:
        mine, right = (is_kind(t[:, others]).double() for t in (calls, evaluations))
        yield _Numbers(functools.partial(_name_share, result, word, others), mine, right, rounding.new_zeros(()))
    mine, right = (torch.where(finite, t, 0.0) for t in (calls, evaluations))
    yield _Numbers(lambda i: f"{result.label}the mean at {_place(i, result.shape)}", mine, right, rounding)
    centre = torch.where(finite, result.mean, 0.0)
    yield _Numbers(
        lambda i: f"{result.label}the variance at {_place(i, result.shape)}",
        (mine - centre).square(),
        (right - centre).square(),
        rounding * (2 * (mine - centre).abs() + rounding),
    )


@dataclass(frozen=True)
class _Standard:
    """The elements less their mean, in standard deviations; negated where the mean is negative, because what is random
    is often a factor of an input. An element that does not vary clearly, or is not finite, is 0."""

    draws: _Recognised
    calls: torch.Tensor
    evaluations: torch.Tensor
    scaling: torch.Tensor
    rounding: torch.Tensor
    varies: torch.Tensor

    @property
    def count(self) -> int:
        """Of the elements that vary."""
        return max(1, int(self.varies.sum()))

    def average(self, t: torch.Tensor) -> torch.Tensor:
        return t.sum(-1, keepdim=True) / self.count


def _standardise(draws: _Recognised) -> _Standard:
    unit = torch.where(draws.varies, torch.where(draws.mean < 0, -draws.spread, draws.spread), 1.0)
    samples = (draws.calls, draws.evaluations, draws.scaling)
    mine, right, scaling = (torch.where(draws.varies, (t - draws.mean) / unit, 0.0) for t in samples)
    rounding = torch.where(draws.varies, draws.inexact / unit.abs(), 0.0)
    return _Standard(draws, mine, right, scaling, rounding, draws.varies)


def _of_all_elements(s: _Standard) -> Iterator[_Numbers]:
    label = s.draws.label
    yield _Numbers(
        lambda _: f"{label}the standardised mean of all elements",
        s.average(s.calls),
        s.average(s.evaluations),
        s.average(s.rounding),
    )
    yield _Numbers(
        lambda _: f"{label}the standardised variance of all elements",
        s.average(s.calls.square()),
        s.average(s.evaluations.square()),
        s.average(s.rounding * (2 * s.calls.abs() + s.rounding)),
    )


def _of_two_calls(s: _Standard) -> Iterator[_Numbers]:
    """Covariances at every distance in the elements of two calls in a row: those of one call, then of the next. Each
    call is taken less its mean, so that a wrong mean hardly shows here."""
    size = s.calls.shape[1]
    calls, evaluations = ((t - s.average(t) * s.varies).view(-1, 2 * size) for t in (s.calls, s.evaluations))
    mine, right = (_autocovariance(t) / (2 * s.count) for t in (calls, evaluations))
    # By Cauchy and Schwarz, for any order of the elements.
    norm, rounding = (t.view(-1, 2 * size).norm(dim=-1, keepdim=True) for t in (s.calls, s.rounding))
    allowance = (2 * norm + rounding) * rounding / (2 * s.count)
    covariance = f"{s.draws.label}the standardised covariance of"
    yield _Numbers(lambda _: f"{covariance} a call with the next", mine[:, -1:], right[:, -1:], allowance)
    yield _Numbers(lambda i: f"{covariance} elements {i + 1} apart", mine[:, :-1], right[:, :-1], allowance)


def _autocovariance(rows: torch.Tensor) -> torch.Tensor:
    """Of each row as a circle: the sums of products of elements 1, 2, … apart, up to half the circle."""
    length = rows.shape[-1]
    sums: torch.Tensor = torch.fft.irfft(torch.fft.rfft(rows).abs().square(), n=length)
    return sums[:, 1 : length // 2 + 1]


def _of_two_results(standard: Sequence[_Standard]) -> Iterator[_Numbers]:
    """Covariances of results of one shape: a gradient belongs to the random numbers of its result."""
    for number, first in enumerate(standard):
        for second in standard[number + 1 :]:
            if tuple(first.draws.shape) == tuple(second.draws.shape):
                yield _covariance(first, second)


def _covariance(first: _Standard, second: _Standard) -> _Numbers:
    sign = (first.scaling * second.scaling).sum(0).sign()
    count = max(1, int((first.varies & second.varies).sum()))

    def average(product: torch.Tensor) -> torch.Tensor:
        return (product * sign).sum(-1, keepdim=True) / count

    rounding = first.calls.abs() * second.rounding + (second.calls.abs() + second.rounding) * first.rounding
    return _Numbers(
        lambda _: f"the standardised covariance of {first.draws.label[:-2]} with {second.draws.label[:-2]}",
        average(first.calls * second.calls),
        average(first.evaluations * second.evaluations),
        rounding.sum(-1, keepdim=True) / count,
    )


def _name_share(result: Draws, word: str, elements: torch.Tensor, i: int) -> str:
    return f"{result.label}the share of {word} at {_place(int(elements[i]), result.shape)}"


def _place(index: int, shape: Sequence[int]) -> str:
    indices: list[int] = []
    for size in reversed(shape):
        index, at = divmod(index, size)
        indices.insert(0, at)
    return f"[{', '.join(map(str, indices))}]"
