"""Whether the values of a way's results are right: `compare`'s rule, applied to each result of a trial."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from kernellab.accuracy.errors import FACTOR, NO_ERROR, SLACK, Errors, measure, passes, special, torch_passes
from kernellab.accuracy.oracle import Outputs, Truth, Wrong
from kernellab.declaration.op import Impl, Op

# PyTorch's own op is held to the manual way; the manual way, being the definition, to itself.
HELD_TO_MANUAL = ("torch", "manual")
_EASED = "beyond the limit, and no further than the exact result is for inputs a few roundings away"


@dataclass
class Judged:
    """The worst errors among a trial's results, the errors they are held to, and what is to be said besides."""

    errors: Errors = NO_ERROR
    held_to: Errors = NO_ERROR
    notes: list[str] = field(default_factory=list)


def judge_values(op: Op, impl: Impl, outputs: Outputs, truth: Truth, *, of: str, specials: bool) -> Judged:
    """Raises Wrong where values are. `specials`: NaN and inf must stand where they should."""
    judged = Judged()
    references = _references(impl, truth, of)
    worst = -1.0
    for number, (got, oracle, held_to) in enumerate(zip(outputs, truth.oracle, references, strict=True)):
        if impl.name == "manual":  # shown, not judged
            errors = _measured(op, got, truth, number) if got.is_floating_point() else NO_ERROR
        elif not got.is_floating_point():
            _judge_integers(got, truth, number, _whose(truth, number, of))
            continue
        else:
            strange = special(got, oracle, truth.peer[number]) if specials else None
            if strange is not None:
                raise Wrong(strange)
            errors = _measured(op, got, truth, number)
            if not _fine(impl, errors, held_to, got.dtype):
                eased = _measured(op, got, truth, number, allowed=truth.nearby.apart(number))
                if not _fine(impl, eased, held_to, got.dtype):
                    said = _wrong_values(errors, held_to, got, oracle)
                    raise Wrong(f"values: {_whose(truth, number, of)}{said}", _excess(eased, held_to))
                errors = eased
                judged.notes = [_EASED]
        if errors.max > worst:
            worst, judged.errors, judged.held_to = errors.max, errors, held_to
    return judged


def _measured(op: Op, got: torch.Tensor, truth: Truth, number: int, allowed: torch.Tensor | None = None) -> Errors:
    floor = truth.floors[number]
    return measure(got, truth.oracle[number], rowwise=bool(op.reduces), floor=floor, allowed=allowed)


def _fine(impl: Impl, errors: Errors, held_to: Errors, dtype: torch.dtype) -> bool:
    return torch_passes(errors, held_to, dtype) if impl.name == "torch" else passes(errors, held_to)


def _references(impl: Impl, truth: Truth, of: str) -> list[Errors]:
    """Whose errors a way is held to. Gradients of the compiled reference round as the reference's own do."""
    if impl.name in HELD_TO_MANUAL:
        return truth.manual_errors
    if impl.kind.name == "compile" and of != "forward":
        return [max(pair, key=lambda e: e.max) for pair in zip(truth.peer_errors, truth.manual_errors, strict=True)]
    return truth.peer_errors


def _judge_integers(got: torch.Tensor, truth: Truth, number: int, whose: str) -> None:
    """Each must be the oracle's or PyTorch's; at a step of the function, what the oracle is on either side of it."""
    right = _equal_to_one(got, truth.exact[number])
    if not bool(right.all()):
        right |= _equal_to_one(got, tuple(other[number].to(got.dtype) for other in truth.nearby.oracles()))
    if not bool(right.all()):
        at = tuple((~right).nonzero()[0].tolist())
        value, want = got[at].item(), truth.exact[number][0][at].item()
        count = int((~right).sum())
        place = ", ".join(map(str, at))
        raise Wrong(f"values: {whose}{count} of {got.numel()} integers differ: at [{place}] {value}, should be {want}")


def _equal_to_one(got: torch.Tensor, others: Outputs) -> torch.Tensor:
    equal = torch.zeros_like(got, dtype=torch.bool)
    for other in others:
        equal |= got == other
    return equal


# Saying what happened ----------------------------------------------------------------------------------


def _whose(truth: Truth, number: int, of: str) -> str:
    """Which of several results it is."""
    if number < truth.results:
        return f"result {number}: " if truth.results > 1 else "" if of == "forward" else "the result: "
    return f"the gradient of {truth.leaves[number - truth.results]}: "


def _excess(errors: Errors, peer: Errors) -> float:
    pairs = ((errors.max, peer.max), (errors.q999, peer.q999))
    return max(mine / (FACTOR * theirs + SLACK) for mine, theirs in pairs)


def _wrong_values(errors: Errors, peer: Errors, got: torch.Tensor, oracle: torch.Tensor) -> str:
    at = errors.at
    value, want = (t[at].item() if at else t.item() for t in (got, oracle))
    limit = FACTOR * peer.max + SLACK
    if errors.max > limit:
        how = f"error {errors.max:.3g}, limit {limit:.3g}"
    else:
        how = f"99.9 % error {errors.q999:.3g}, limit {FACTOR * peer.q999 + SLACK:.3g}"
    return f"{how}; at [{', '.join(map(str, at))}] {value:.6g}, should be {want:.6g}"
