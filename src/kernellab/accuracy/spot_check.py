"""Comparing results while timing, at a few thousand random places.

The check has compared every element. While timing, the question is whether a result belongs to these inputs at all, or
is an old result or an unwritten one. This needs no copies the size of a tensor and does not wait for the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import take  # bound at import: an implementation may replace torch.take

from kernellab.accuracy.errors import TORCH_ALLOWANCE, bounds, limit
from kernellab.accuracy.outputs import Outputs, Wrong, require_same_shapes
from kernellab.accuracy.prepared_trial import PreparedTrial

_PLACES = 4096
_SCALE_ELEMENTS = 1 << 25  # read at most to compute the scales of the rows of these places


@dataclass(frozen=True)
class _Places:
    """What one result must be at random places: the peer's values, and the range of right values."""

    indices: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor
    peer: torch.Tensor


@dataclass(frozen=True)
class _Compared:
    """The values of one result at those places, and which of them are right."""

    values: torch.Tensor
    peer: torch.Tensor
    right: torch.Tensor


class SpotCheck:
    """What the results for one content of the inputs must be at random places."""

    def __init__(self, prepared: PreparedTrial, *, rowwise: bool, generator: torch.Generator) -> None:
        self.aliases = prepared.aliases
        # A timed backward pass returns gradients only.
        timed = slice(prepared.result_count if prepared.gradient_inputs else 0, None)
        self._forms = tuple(torch.empty_like(t, device="meta") for t in prepared.peer[timed])
        self._places: list[_Places] = []
        errors = zip(prepared.peer_errors[timed], prepared.manual_errors[timed], strict=True)
        for oracle, peer, (a, b) in zip(prepared.oracle[timed], prepared.peer[timed], errors, strict=True):
            width = peer.shape[-1] if rowwise and peer.dim() else 1
            count = min(peer.numel(), _PLACES, max(256, _SCALE_ELEMENTS // max(1, width)))
            indices = torch.randint(0, max(1, peer.numel()), (count,), generator=generator).to(peer.device)
            max_error = 0.0
            if peer.is_floating_point():
                max_error = limit(max(a.max, b.max)) + TORCH_ALLOWANCE / torch.finfo(peer.dtype).eps
            low, high = bounds(oracle, peer.dtype, indices, max_error, rowwise=rowwise)
            self._places.append(_Places(indices, low, high, torch.take(peer, indices)))

    def require_form(self, outputs: Outputs) -> None:
        """Raises Wrong where the number or the shapes of the results differ. Costs the device nothing."""
        require_same_shapes(outputs, self._forms)

    def matches(self, outputs: Outputs) -> torch.Tensor:
        """Whether the values at all places are right: a scalar on the device, queued and not waited for."""
        return torch.stack([compared.right.all() for compared in self._compare(outputs)]).all()

    def explain_mismatch(self, outputs: Outputs) -> Wrong:
        """What is wrong with results that do not match."""
        for compared in self._compare(outputs):
            wrong = ~compared.right
            if bool(wrong.any()):
                first = int(wrong.int().argmax())
                percent = 100 * float(wrong.float().mean())
                got, want = compared.values[first].item(), compared.peer[first].item()
                return Wrong(f"{percent:.3g} % of the compared values are wrong: {got:.6g}, should be {want:.6g}")
        return Wrong("its result came late: it was wrong when it was compared, and right afterwards")

    def _compare(self, outputs: Outputs) -> Iterator[_Compared]:
        for y, at in zip(outputs, self._places, strict=True):
            values = take(y, at.indices)
            wide = values.double()
            same = (values == at.peer) | (values.isnan() & at.peer.isnan())
            yield _Compared(values, at.peer, same | ((wide >= at.low) & (wide <= at.high)))
