"""Comparing results while timing, at a thousand random places.

The check has compared every element. While timing, the question is whether a result belongs to these inputs at all, or
is an old result or an unwritten one. The values at places drawn after the call are kept, which does not wait for the
device. They are judged when all calls have been made: until then there is no oracle that an implementation could find.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import randint, take  # bound at import: an implementation may replace torch.take

from kernellab.accuracy.errors import TORCH_ALLOWANCE, digits_that_differ, limit, scales
from kernellab.accuracy.outputs import Outputs, Wrong, require_same_shapes
from kernellab.accuracy.prepared_trial import PreparedTrial

_PLACES = 1024
_SEED_BITS = 62
_generators: dict[torch.device, torch.Generator] = {}  # one per device: making one for each sample would be slow


@dataclass(frozen=True)
class ResultForm:
    """What is known of the results before the oracle is: shapes, the inputs they may alias, the errors that pass."""

    tensors: Outputs  # without data
    aliases: frozenset[str]
    max_errors: tuple[float, ...]  # in roundings, one for each result

    @classmethod
    def of(cls, prepared: PreparedTrial) -> ResultForm:
        first = _first_timed(prepared)
        errors = zip(prepared.peer_errors[first:], prepared.manual_errors[first:], strict=True)
        peers = prepared.peer[first:]
        return cls(
            tuple(torch.empty_like(t, device="meta") for t in peers),
            prepared.aliases,
            tuple(_max_error(max(a.max, b.max), t.dtype) for t, (a, b) in zip(peers, errors, strict=True)),
        )

    def allowing(self, checked_error: float) -> ResultForm:
        """The form with errors as large as the check found, in roundings: the check decided whether they pass."""
        if not checked_error:
            return self
        return replace(self, max_errors=tuple(max(error, limit(checked_error)) for error in self.max_errors))

    def require(self, outputs: Outputs) -> None:
        """Raises Wrong where the number or the shapes of the results differ. Costs the device nothing."""
        require_same_shapes(outputs, self.tensors)


@dataclass(frozen=True)
class Sample:
    """The values of results at places that follow from a seed, as they were right behind the call."""

    seed: int
    values: Outputs
    late_values: Outputs | None = None  # the same places once the device had ended its work; None: not read again


def take_sample(outputs: Outputs) -> Sample:
    """Read the results at new places. On a GPU this is queued, not waited for."""
    seed = secrets.randbits(_SEED_BITS)
    return Sample(seed, tuple(take(t, _places(t, seed)) for t in outputs))


def take_again(sample: Sample, outputs: Outputs) -> Sample:
    return Sample(sample.seed, sample.values, tuple(take(t, _places(t, sample.seed)) for t in outputs))


class SpotCheck:
    """What the results for one content of the inputs must be."""

    def __init__(self, oracle: Outputs, peer: Outputs, max_errors: Sequence[float], *, rowwise: bool) -> None:
        """`peer`: right results in the dtype, which always pass. `max_errors`: in roundings, one for each result."""
        self._oracle, self._peer, self._max_errors = oracle, peer, max_errors
        self._widths = [t.shape[-1] if rowwise and t.dim() else 1 for t in peer]
        self._scales = [
            scales(o, t.dtype, rowwise=rowwise) if t.is_floating_point() else None
            for o, t in zip(oracle, peer, strict=True)
        ]

    @classmethod
    def of(cls, prepared: PreparedTrial, *, rowwise: bool) -> SpotCheck:
        first = _first_timed(prepared)
        max_errors = ResultForm.of(prepared).max_errors
        return cls(prepared.oracle[first:], prepared.peer[first:], max_errors, rowwise=rowwise)

    def find_wrong(self, samples: Sequence[Sample], checked_error: float = 0.0) -> Wrong | None:
        """What is wrong with the first of these samples that is not right.

        `checked_error`: what the check found, in roundings. Whether that is too much was decided there.
        """
        if checked_error:
            max_errors = [max(error, limit(checked_error)) for error in self._max_errors]
            return self._with_errors(max_errors).find_wrong(samples)
        right = [self._all_right(sample.seed, sample.values) for sample in samples]
        if not right or bool(torch.stack(right).all()):
            return None
        first = samples[[bool(flag) for flag in right].index(False)]
        if first.late_values is not None and bool(self._all_right(first.seed, first.late_values)):
            return Wrong("its result came late: it was wrong when it was compared, and right afterwards")
        return self._explain(first)

    def _with_errors(self, max_errors: Sequence[float]) -> SpotCheck:
        changed = copy.copy(self)
        changed._max_errors = max_errors
        return changed

    def _all_right(self, seed: int, values: Outputs) -> torch.Tensor:
        return torch.stack([self._right(number, seed, value).all() for number, value in enumerate(values)]).all()

    def _right(self, number: int, seed: int, values: torch.Tensor) -> torch.Tensor:
        """Which values of one result are right."""
        peer, scale = self._peer[number], self._scales[number]
        places = _places(peer, seed)
        expected = take(peer, places)
        same = (values == expected) | (values.isnan() & expected.isnan())
        if scale is None or not places.numel():
            return same
        at = take(self._oracle[number], places).double()
        size = scale[places // self._widths[number]] if scale.dim() else scale
        info = torch.finfo(peer.dtype)
        distance = self._max_errors[number] * info.eps * torch.maximum(at.abs(), size).clamp_min(info.tiny)
        return same | ((values.double() - at).abs() <= distance)

    def _explain(self, sample: Sample) -> Wrong:
        for number, values in enumerate(sample.values):
            wrong = ~self._right(number, sample.seed, values)
            if bool(wrong.any()):
                first = int(wrong.int().argmax())
                percent = 100 * float(wrong.float().mean())
                peer = self._peer[number]
                got, want = values[first].item(), take(peer, _places(peer, sample.seed))[first].item()
                shown, expected = digits_that_differ(got, want)
                return Wrong(f"{percent:.3g} % of the compared values are wrong: {shown}, should be {expected}")
        raise AssertionError("all values are right")


def _first_timed(prepared: PreparedTrial) -> int:
    """A timed backward pass returns gradients only, which come after the results."""
    return prepared.result_count if prepared.gradient_inputs else 0


def _max_error(peer_error: float, dtype: torch.dtype) -> float:
    if not dtype.is_floating_point:
        return 0.0
    return limit(peer_error) + TORCH_ALLOWANCE / torch.finfo(dtype).eps


def _places(t: torch.Tensor, seed: int) -> torch.Tensor:
    """Flat indices into a result. They depend on the seed alone."""
    if t.device not in _generators:
        _generators[t.device] = torch.Generator(t.device)
    generator = _generators[t.device].manual_seed(seed)
    return randint(0, max(1, t.numel()), (min(t.numel(), _PLACES),), generator=generator, device=t.device)
