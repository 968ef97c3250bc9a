"""Philox4x32-10 (Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3*, 2011): random words that
are a function of a seed, an offset and an element's index alone, so that every implementation and pass draws the same.

The seed is the key. A counter of 128 bits gives four words of 32 bits: its lower half is the element's index divided by
4, its upper half the offset. Element i has word i % 4 of them. The index is the logical one, in the order of the shape,
whatever the strides are. Two calls with different offsets have no counter in common.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF
Words = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


class Stream(NamedTuple):
    """The random words of one call, a 32-bit word for each element. Both numbers are taken modulo 2⁶⁴."""

    seed: int
    offset: int

    def as_int64(self) -> tuple[int, int]:
        """Both as signed integers with the same 64 bits, as kernels take them."""
        return _signed(self.seed), _signed(self.offset)

    def words(self, shape: Sequence[int], device: torch.device) -> torch.Tensor:
        """The words of a tensor's elements, as int64."""
        count = math.prod(shape)
        blocks = torch.arange((count + 3) // 4, device=device)
        upper = [torch.full_like(blocks, half) for half in _halves(self.offset)]
        words = philox((blocks & _WORD, blocks >> 32, upper[0], upper[1]), _halves(self.seed))
        return torch.stack(words, dim=-1).flatten()[:count].view(tuple(shape))


def keep_rule(op: str, p: float) -> tuple[int, float]:
    """How dropout with probability p uses words: an element is kept if its word is at most the first number, and is
    then multiplied by the second.

    At least one of the 2³² words keeps an element: at p = 1 the factor 0 drops it.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"{op}: the probability of dropout is {p}, and a probability is from 0 to 1")
    return max(round((1 - p) * 2**32), 1) - 1, 0.0 if p == 1 else 1 / (1 - p)


def philox(counter: Words, key: tuple[int, int]) -> Words:
    """Four words of each counter. All are words of 32 bits, in int64 tensors.

    int64 wraps around, so that a product has all its 64 bits. Until the end c1 and c3 keep both words of theirs: the
    upper ones are cleared from c0 and c2.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        a, b = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = ((b >> 32) ^ c1 ^ k0) & _WORD, b, ((a >> 32) ^ c3 ^ k1) & _WORD, a
        k0, k1 = (k0 + _KEY_STEPS[0]) & _WORD, (k1 + _KEY_STEPS[1]) & _WORD
    return c0, c1 & _WORD, c2, c3 & _WORD


def _halves(number: int) -> tuple[int, int]:
    """The lower and the upper word of a number modulo 2⁶⁴."""
    return number & _WORD, number >> 32 & _WORD


def _signed(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
