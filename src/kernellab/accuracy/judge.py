"""Whether the values of an implementation's results are right: the rule of `errors`, applied to each result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from kernellab.accuracy.errors import (
    NO_ERROR,
    Errors,
    digits_that_differ,
    limit,
    measure,
    nonfinite_mismatch,
    passes,
    torch_passes,
)
from kernellab.accuracy.monte_carlo import most_roundings
from kernellab.accuracy.outputs import Outputs, Wrong
from kernellab.accuracy.prepared_trial import CannotCheck, PreparedTrial
from kernellab.accuracy.repeats import LARGE
from kernellab.declaration.op import Impl, Op

# `manual` is the definition and its own peer.
_PEER_IS_MANUAL = ("torch", "manual")
_WITHIN_ROUNDING = "beyond the limit, but within what a few roundings of the inputs do to the exact result"


@dataclass(frozen=True)
class Judgement:
    """The largest errors among a trial's results, the peer's errors there, and notes for the record."""

    errors: Errors
    peer_errors: Errors
    notes: tuple[str, ...]
    imprecision: str | None = None  # which results are beyond the limit and yet within what rounding each step does


def peer_of(impl: Impl, prepared: PreparedTrial) -> str:
    """The name of the implementation whose errors set the tolerance for this one."""
    return "manual" if impl.name in _PEER_IS_MANUAL else prepared.peer_name


def judge_values(
    op: Op, impl: Impl, outputs: Outputs, prepared: PreparedTrial, *, pass_name: str, check_nonfinite: bool
) -> Judgement:
    """Raises Wrong for wrong values, with all the results that are wrong; CannotCheck where only values are off that
    the peer does not have either. `check_nonfinite`: NaN and inf must occur where they should."""
    peer_errors = _peer_errors(impl, prepared, pass_name)
    judgements: list[Judgement] = []
    wrong: list[Wrong] = []
    doubts: list[CannotCheck] = []
    for number, (got, peer) in enumerate(zip(outputs, peer_errors, strict=True)):
        try:
            judgements.append(_judge_result(op, impl, got, peer, prepared, number, check_nonfinite=check_nonfinite))
        except Wrong as error:
            wrong.append(error)
        except CannotCheck as doubt:
            doubts.append(doubt)
    if wrong:
        raise _join(wrong)
    if doubts:
        raise doubts[0]
    worst = max(judgements, key=lambda judgement: judgement.errors.max, default=Judgement(NO_ERROR, NO_ERROR, ()))
    notes = dict.fromkeys(note for judgement in judgements for note in judgement.notes)
    imprecise = [judgement.imprecision for judgement in judgements if judgement.imprecision]
    return replace(worst, notes=tuple(notes), imprecision="; ".join(imprecise) or None)


def _judge_result(
    op: Op, impl: Impl, got: torch.Tensor, peer: Errors, prepared: PreparedTrial, number: int, *, check_nonfinite: bool
) -> Judgement:
    """One result or gradient: right by the rule, right beyond what rounding the inputs does, imprecise, or Wrong."""
    label = prepared.label(number)
    if impl.name == "manual":  # its values are shown, not judged
        return Judgement(_measure(op, got, prepared, number) if got.is_floating_point() else NO_ERROR, peer, ())
    if not got.is_floating_point():
        _judge_integers(got, prepared, number, label)
        return Judgement(NO_ERROR, peer, ())
    overflowed = prepared.overflowed[number]
    if overflowed is not None:  # not judged: counted as right
        got = torch.where(overflowed, prepared.oracle[number].to(got.dtype), got)
    if check_nonfinite:
        prepared = _judge_nonfinite(got, prepared, number, label)
    errors = _measure(op, got, prepared, number)
    if _passes(impl, errors, peer, got.dtype):
        return Judgement(errors, peer, ())
    description = f"{label}{_describe_error(errors, peer, got, prepared.oracle[number])}"
    flushed = prepared.flushed.nearest(number, got)
    if flushed is not None and _passes(
        impl, _measure(op, got, prepared.with_oracle(number, flushed), number), peer, got.dtype
    ):
        return Judgement(errors, peer, (), f"{description}; it takes denormal numbers as 0")
    if _is_beyond_doubt(errors, got, prepared.peer[number]):
        raise Wrong(f"values: {description}", _excess(errors, peer))
    allowance = prepared.perturbed.deviation(number)
    beyond = _measure(op, got, prepared, number, allowance=allowance)
    if _passes(impl, beyond, peer, got.dtype):
        return Judgement(beyond, peer, (_WITHIN_ROUNDING,))
    least_scale = prepared.least_scales[number]
    rounded = prepared.rounded.errors(number, got.dtype, least_scale)
    if passes(beyond, rounded):
        return Judgement(errors, peer, (), f"{description}; rounding each step explains up to {limit(rounded.max):.3g}")
    typical = prepared.typical.scales(number, got.dtype)
    if typical is not None:
        remaining = _measure(op, got, prepared, number, allowance=allowance, least_scales=typical)
        explained = prepared.rounded.errors(number, got.dtype, least_scale, typical)
        if passes(remaining, explained):
            share = f"{remaining.max:.3g} at the scale of the terms that cancel there"
            explanation = f"{share}, of which rounding each step explains up to {limit(explained.max):.3g}"
            return Judgement(errors, peer, (), f"{description}; {explanation}")
    if impl.name not in _PEER_IS_MANUAL:
        _require_finite_peer(op, got, peer, prepared, number)
    raise Wrong(f"values: {description}", _excess(beyond, rounded if rounded.max > peer.max else peer))


def _is_beyond_doubt(errors: Errors, got: torch.Tensor, peer: torch.Tensor) -> bool:
    """Whether a large result is off by more than rounding may explain: the reference is then not evaluated again,
    which takes long."""
    if got.numel() <= LARGE or errors.max <= limit(most_roundings(got.dtype)):
        return False
    return bool(peer.isfinite().all())


def _require_finite_peer(op: Op, got: torch.Tensor, peer: Errors, prepared: PreparedTrial, number: int) -> None:
    """Raises CannotCheck where the result is off only at elements at which the peer is NaN or inf, the oracle finite.

    An intermediate value of the peer overflows there. In an implementation with the same intermediate values the
    result may be any number: a norm of rows divides by an infinite variance.
    """
    got_where_peer_is_finite = got.where(prepared.peer[number].isfinite(), torch.nan)
    deviation = prepared.perturbed.deviation(number)
    if passes(_measure(op, got_where_peer_is_finite, prepared, number, allowance=deviation), peer):
        count = int((got.isfinite() & ~prepared.peer[number].isfinite()).sum())
        reason = f"the peer, {prepared.peer_name}, is not finite at {count} elements where the float64 oracle is"
        raise CannotCheck(f"{prepared.label(number)}{reason}, and only there is the result off")


def _join(wrong: Sequence[Wrong]) -> Wrong:
    """All that is wrong in one sentence."""
    first, *others = wrong
    message = "; ".join([str(first), *(str(other).removeprefix("values: ") for other in others)])
    return Wrong(message, max(error.excess for error in wrong))


def _judge_nonfinite(got: torch.Tensor, prepared: PreparedTrial, number: int, label: str) -> PreparedTrial:
    """The trial, with another oracle where NaN and inf differ from this one's and are as right."""
    oracle, peer, overflowed = prepared.oracle[number], prepared.peer[number], prepared.overflowed[number]
    if overflowed is not None:
        peer = torch.where(overflowed, oracle.to(peer.dtype), peer)
    if nonfinite_mismatch(got, oracle, peer) is None:
        return prepared
    settled = prepared.unsettled.settle(number, got)
    mismatch = nonfinite_mismatch(got, settled, peer)
    if mismatch is not None:
        raise Wrong(f"{label}{mismatch}")
    return prepared.with_oracle(number, settled)


def _measure(
    op: Op,
    got: torch.Tensor,
    prepared: PreparedTrial,
    number: int,
    *,
    allowance: torch.Tensor | None = None,
    least_scales: torch.Tensor | None = None,
) -> Errors:
    return measure(
        got,
        prepared.oracle[number],
        rowwise=bool(op.reduces),
        least_scale=prepared.least_scales[number],
        least_scales=least_scales,
        allowance=allowance,
    )


def _passes(impl: Impl, errors: Errors, peer: Errors, dtype: torch.dtype) -> bool:
    # In float64 generated code has no approximations of its own.
    by_torch = impl.name == "torch" or (impl.kind.name == "compile" and dtype != torch.float64)
    return torch_passes(errors, peer, dtype) if by_torch else passes(errors, peer)


def _peer_errors(impl: Impl, prepared: PreparedTrial, pass_name: str) -> list[Errors]:
    """The errors that set the tolerance. Gradients of the compiled reference round as the reference's own do."""
    if impl.name in _PEER_IS_MANUAL:
        return prepared.manual_errors
    if impl.kind.name == "compile" and pass_name != "forward":
        pairs = zip(prepared.peer_errors, prepared.manual_errors, strict=True)
        return [max(pair, key=lambda errors: errors.max) for pair in pairs]
    return prepared.peer_errors


def _judge_integers(got: torch.Tensor, prepared: PreparedTrial, number: int, which: str) -> None:
    """Each must equal the oracle's, the peer's or manual's; at a step of the function, an oracle on either side.

    NaN or inf converted to an integer is undefined, and not judged.
    """
    right = _equal_to_any(got, prepared.integers[number])
    if not bool(right.all()):
        nearby = tuple(outputs[number].to(got.dtype) for outputs in prepared.perturbed.oracles())
        right |= _equal_to_any(got, nearby)
    undefined = None if bool(right.all()) else prepared.undefined.mask(number)
    if undefined is not None:
        right |= undefined
    if not bool(right.all()):
        at = tuple((~right).nonzero()[0].tolist())
        value, want = got[at].item(), prepared.integers[number][0][at].item()
        count = int((~right).sum())
        place = ", ".join(map(str, at))
        raise Wrong(f"values: {which}{count} of {got.numel()} integers differ: at [{place}] {value}, should be {want}")


def _equal_to_any(got: torch.Tensor, candidates: Outputs) -> torch.Tensor:
    equal = torch.zeros_like(got, dtype=torch.bool)
    for candidate in candidates:
        equal |= got == candidate
    return equal


# Messages ----------------------------------------------------------------------------------------------


def _excess(errors: Errors, peer: Errors) -> float:
    return max(errors.max / limit(peer.max), errors.q999 / limit(peer.q999))


def _describe_error(errors: Errors, peer: Errors, got: torch.Tensor, oracle: torch.Tensor) -> str:
    at = errors.at
    value, want = (t[at].item() if at else t.item() for t in (got, oracle))
    if errors.max > limit(peer.max):
        error = f"error {errors.max:.3g}, limit {limit(peer.max):.3g}"
    else:
        error = f"99.9 % error {errors.q999:.3g}, limit {limit(peer.q999):.3g}"
    shown, expected = digits_that_differ(value, want)
    return f"{error}; at [{', '.join(map(str, at))}] {shown}, should be {expected}"
