"""A truth small enough to keep while timing: what a result must be at a few thousand places drawn at random.

The check has judged every element with care. While timing the question is coarser: is this the result of
*these* inputs at all, or an old one, or nothing? That needs no tensor-sized copies, and no waiting.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import take  # bound here: a way may replace torch.take

from kernellab.accuracy.errors import FACTOR, SLACK, TORCH_ALLOWANCE, bounds
from kernellab.accuracy.oracle import Outputs, Truth, Wrong, same_shape

_PLACES = 4096
_LOOKED_THROUGH = 1 << 25  # elements read to find the scales of the rows looked at


class Spot:
    """The truth of one case and content at random places."""

    def __init__(self, truth: Truth, *, rowwise: bool, generator: torch.Generator) -> None:
        self.aliases = truth.aliases
        timed = slice(truth.results if truth.leaves else 0, None)  # a timed backward pass returns gradients alone
        self._like = tuple(torch.empty_like(t, device="meta") for t in truth.peer[timed])
        self._places, self._low, self._high, self._known = [], [], [], []
        errors = zip(truth.peer_errors[timed], truth.manual_errors[timed], strict=True)
        for oracle, peer, (a, b) in zip(truth.oracle[timed], truth.peer[timed], errors, strict=True):
            width = peer.shape[-1] if rowwise and peer.dim() else 1
            count = min(peer.numel(), _PLACES, max(256, _LOOKED_THROUGH // max(1, width)))
            places = torch.randint(0, max(1, peer.numel()), (count,), generator=generator).to(peer.device)
            allowed = 0.0
            if peer.is_floating_point():
                allowed = FACTOR * max(a.max, b.max) + SLACK + TORCH_ALLOWANCE / torch.finfo(peer.dtype).eps
            low, high = bounds(oracle, peer.dtype, places, allowed, rowwise=rowwise)
            self._places.append(places)
            self._low.append(low)
            self._high.append(high)
            self._known.append(torch.take(peer, places))

    def form(self, outputs: Outputs) -> None:
        """Raises Wrong where a result has not even the form of the truth. Costs the device nothing."""
        same_shape(outputs, self._like)

    def matches(self, outputs: Outputs) -> torch.Tensor:
        """Whether every looked-at value is right: a scalar on the device, queued and not waited for."""
        return torch.stack([fine.all() for _, _, fine in self._looked_at(outputs)]).all()

    def complain(self, outputs: Outputs) -> Wrong:
        """What is wrong with results that do not match."""
        for seen, known, fine in self._looked_at(outputs):
            if not bool(fine.all()):
                first = int((~fine).int().argmax())
                share = 100 * float((~fine).float().mean())
                got, want = seen[first].item(), known[first].item()
                return Wrong(f"{share:.3g} % of the values looked at are wrong: {got:.6g}, should be {want:.6g}")
        return Wrong("its result came late: it was wrong when looked at, and right afterwards")

    def _looked_at(self, outputs: Outputs) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Of each result: the values seen, PyTorch's values, and which of the former are right."""
        for y, places, low, high, known in zip(outputs, self._places, self._low, self._high, self._known, strict=True):
            seen = take(y, places)
            wide = seen.double()
            same = (seen == known) | (seen.isnan() & known.isnan())
            yield seen, known, same | ((wide >= low) & (wide <= high))
