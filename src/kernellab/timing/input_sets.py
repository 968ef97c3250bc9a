"""Copies of an op's inputs at different addresses, with two different contents that change places.

A way that answers from a cache keyed by pointer, replays an old result or skips calls gives a wrong answer
sooner or later: addresses repeat with other contents, and neighbouring calls differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.autograd.graph import increment_version  # bound here: a way may replace it

from kernellab.declaration.inputs import Inputs, clone
from kernellab.machine.memory import free_bytes

_PIECE = 64  # words


class InputSets:
    """`sets[i]` holds content `content(i)`. `masters` are the contents themselves, which no way ever sees."""

    def __init__(self, masters: Sequence[Inputs]) -> None:
        self.masters = list(masters)
        self._sets: list[Inputs] = []
        self._turn = self._stamp = 0
        self._evidence: list[torch.Tensor] = []
        self._sums: list[torch.Tensor] = []  # of the masters, once somebody asks

    @property
    def bytes(self) -> int:
        """Of one set."""
        return sum(t.numel() * t.element_size() for t in self.masters[0].values() if t is not None)

    def fit(self, device: torch.device, *, copies: int) -> bool:
        """Whether so many copies, each with a result of its size, take at most half of the free memory."""
        return 2 * copies * self.bytes <= free_bytes(device) / 2

    def __len__(self) -> int:
        return len(self._sets)

    def __getitem__(self, number: int) -> Inputs:
        return self._sets[number]

    def content(self, number: int) -> int:
        return (number + self._turn) % len(self.masters)

    def grow(self, count: int) -> None:
        """Have at least so many sets."""
        while len(self._sets) < count:
            self._sets.append(clone(self.masters[self.content(len(self._sets))]))

    def turn(self) -> None:
        """Let the contents change places, in place. On a GPU this is queued, not waited for."""
        self._evidence.append(self.all_intact())  # before it is written over
        self._turn += 1
        for number in range(len(self._sets)):
            self.restore(number)

    def restore(self, number: int) -> None:
        """Write a set's content into it again, for ways that change their inputs by declaration."""
        with torch.no_grad():
            for mine, master in zip(
                self._sets[number].values(), self.masters[self.content(number)].values(), strict=True
            ):
                if mine is not None and master is not None:
                    mine.copy_(master)

    def write(self, number: int, content: Inputs) -> None:
        """Write a content of somebody else's into a set; `turn` writes its own again."""
        self._evidence.clear()
        for mine, other in zip(self._sets[number].values(), content.values(), strict=True):
            if mine is not None and other is not None:
                mine.copy_(other)

    def touch(self) -> None:
        """Count as changed, for whoever caches results by autograd's version counter."""
        for one in self._sets:
            for t in one.values():
                if t is not None:
                    increment_version(t)

    def another(self, number: int) -> Inputs:
        """The same set as tensors of a version of their own, for calls on one set that follow one another."""
        self._stamp += 1
        made = {k: None if t is None else t.data for k, t in self._sets[number].items()}
        for t in made.values():
            if t is not None:
                _stamp_version(t, self._stamp)
        return made

    def spoiled(self) -> bool:
        """Whether somebody had changed a set before its content was written anew. Waits for the device."""
        found, self._evidence = self._evidence, []
        return not all(map(bool, found))

    def all_intact(self) -> torch.Tensor:
        return torch.stack([self.intact(number) for number in range(len(self._sets))]).all()

    def intact(self, number: int) -> torch.Tensor:
        """Whether a set still holds its content, by its checksum: a scalar on the device, not waited for."""
        self._sums = self._sums or [_fingerprint(master) for master in self.masters]
        return (_fingerprint(self._sets[number]) == self._sums[self.content(number)]).all()


def _stamp_version(t: torch.Tensor, version: int) -> None:
    try:
        torch._C._autograd._unsafe_set_version_counter((t,), (version,))
    except (AttributeError, TypeError):  # a torch that does not have it: one step is better than none
        increment_version(t)


def _fingerprint(inputs: Inputs) -> torch.Tensor:
    """A sum over each tensor's bits, weighted by place: any one change shows, and elements that change places."""
    return torch.stack([_bits_sum(t) for t in inputs.values() if t is not None] or [torch.zeros(())])


def _bits_sum(t: torch.Tensor) -> torch.Tensor:
    flat = t.detach().reshape(-1).view(torch.uint8)
    whole = flat.numel() // 8 * 8
    words = flat[:whole].view(torch.int64)
    even = words.numel() // _PIECE * _PIECE
    pieces = (words[:even].view(-1, _PIECE) * _odd(_PIECE, t.device)).sum(dim=1)
    rest = torch.cat([words[even:], flat[whole:].long()])
    return (pieces * _odd(pieces.numel(), t.device)).sum() + (rest * _odd(rest.numel(), t.device)).sum()


def _odd(count: int, device: torch.device) -> torch.Tensor:
    return 2 * torch.arange(count, device=device) + 1
