"""Copies of an op's inputs at different addresses, with two contents that are swapped.

An implementation that caches results by pointer, returns an old result or skips calls becomes
wrong sooner or later: addresses recur with other contents, and consecutive calls have different contents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.autograd.graph import increment_version  # bound here: an implementation may replace it

from kernellab.declaration.inputs import Inputs, clone
from kernellab.machine.memory import free_bytes

_CHUNK_WORDS = 64


class InputSets:
    """`sets[number]` holds `contents[content_of(number)]`. Implementations are given the sets, never `contents` itself.

    `remake(content)` makes a content anew: an implementation that looks for tensors finds those of `contents` too.
    """

    def __init__(self, contents: Sequence[Inputs], remake: Callable[[int], Inputs] | None = None) -> None:
        self.contents = list(contents)
        self._remake = remake
        self._content_sums: list[list[int]] = []  # as numbers, computed when first needed
        self._sets: list[Inputs] = []
        self._swaps = self._version = 0
        self._intact_before_swap: list[torch.Tensor] = []
        self._checksums: list[torch.Tensor] = []  # of the contents, computed when first needed

    @property
    def bytes(self) -> int:
        """The size of one set."""
        return sum(t.numel() * t.element_size() for t in self.contents[0].values() if t is not None)

    def fits(self, device: torch.device, *, copies: int) -> bool:
        """Whether this many copies, each with a result of its size, take at most half of the free memory."""
        return 2 * copies * self.bytes <= free_bytes(device) / 2

    def __len__(self) -> int:
        return len(self._sets)

    def __getitem__(self, number: int) -> Inputs:
        return self._sets[number]

    def content_of(self, number: int) -> int:
        """The index of the content that a set holds now."""
        return (number + self._swaps) % len(self.contents)

    def grow_to(self, count: int) -> None:
        """Add sets until there are at least this many."""
        while len(self._sets) < count:
            self._sets.append(clone(self.contents[self.content_of(len(self._sets))]))

    def swap(self) -> None:
        """Swap the contents of the sets in place. On a GPU this is queued, not waited for."""
        self._intact_before_swap.append(self.all_intact())
        self._swaps += 1
        for number in range(len(self._sets)):
            self.restore(number)

    def restore(self, number: int) -> None:
        """Rewrite a set's content, for implementations that change their inputs by declaration."""
        with torch.no_grad():
            _copy(self.contents[self.content_of(number)], self._sets[number])

    def overwrite(self, number: int, content: Inputs) -> None:
        """Write another content into a set, until `swap` or `restore` writes its own again."""
        self._intact_before_swap.clear()
        _copy(content, self._sets[number])

    def bump_versions(self) -> None:
        """Mark all sets as changed for a cache keyed by autograd's version counters."""
        for inputs in self._sets:
            for t in inputs.values():
                if t is not None:
                    increment_version(t)

    def as_new_tensors(self, number: int) -> Inputs:
        """A set as tensors with version counters of their own, for consecutive calls on one set."""
        self._version += 1
        inputs = {k: None if t is None else t.data for k, t in self._sets[number].items()}
        for t in inputs.values():
            if t is not None:
                _set_version(t, self._version)
        return inputs

    def changed_before_swap(self) -> bool:
        """Whether an implementation had changed a set before a swap since the last call. Waits for the device."""
        flags, self._intact_before_swap = self._intact_before_swap, []
        return not all(map(bool, flags))

    def contents_intact(self) -> bool:
        """Whether `contents` are what they were when this was first asked. Waits for the device."""
        sums = [_checksum(content).tolist() for content in self.contents]
        self._content_sums = self._content_sums or sums
        return sums == self._content_sums

    def remake_contents(self) -> None:
        """Write the contents and all sets anew."""
        if self._remake is not None:
            for number, content in enumerate(self.contents):
                _copy(self._remake(number), content)
        self._checksums, self._intact_before_swap = [], []
        for number in range(len(self._sets)):
            self.restore(number)

    def all_intact(self) -> torch.Tensor:
        """`intact` of all sets at once."""
        return torch.stack([self.intact(number) for number in range(len(self._sets))]).all()

    def intact(self, number: int) -> torch.Tensor:
        """Whether a set still holds its content, by checksum: a scalar on the device, not waited for."""
        self._checksums = self._checksums or [_checksum(content) for content in self.contents]
        return (_checksum(self._sets[number]) == self._checksums[self.content_of(number)]).all()


def _copy(source: Inputs, target: Inputs) -> None:
    for value, place in zip(source.values(), target.values(), strict=True):
        if value is not None and place is not None:
            place.copy_(value)


def _set_version(t: torch.Tensor, version: int) -> None:
    try:
        torch._C._autograd._unsafe_set_version_counter((t,), (version,))
    except (AttributeError, TypeError):  # this torch lacks the function: an increment is better than nothing
        increment_version(t)


def _checksum(inputs: Inputs) -> torch.Tensor:
    """A sum over the bits of each tensor, weighted by position: it detects any single change, and any permutation of
    a few elements."""
    return torch.stack([_bits_sum(t) for t in inputs.values() if t is not None] or [torch.zeros(())])


def _bits_sum(t: torch.Tensor) -> torch.Tensor:
    flat = t.detach().reshape(-1).view(torch.uint8)
    whole = flat.numel() // 8 * 8
    words = flat[:whole].view(torch.int64)
    even = words.numel() // _CHUNK_WORDS * _CHUNK_WORDS
    chunks = (words[:even].view(-1, _CHUNK_WORDS) * _odd_weights(_CHUNK_WORDS, t.device)).sum(dim=1)
    rest = torch.cat([words[even:], flat[whole:].long()])
    weighted_chunks = chunks * _odd_weights(chunks.numel(), t.device)
    return weighted_chunks.sum() + (rest * _odd_weights(rest.numel(), t.device)).sum()


def _odd_weights(count: int, device: torch.device) -> torch.Tensor:
    return 2 * torch.arange(count, device=device) + 1
