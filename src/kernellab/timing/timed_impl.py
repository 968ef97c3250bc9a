"""One way's calls over the input sets: prepared outside the timed window, made inside it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kernellab.declaration.inputs import Inputs
from kernellab.timing.input_sets import InputSets

Call = Callable[[], Any]


class Work:
    """`prepare` turns an input set into the call to time: for the backward pass it runs the forward.

    `restores`: the way changes its inputs by declaration, so they are written anew before every call.
    """

    def __init__(
        self,
        name: str,
        sets: InputSets,
        prepare: Callable[[Inputs], Call],
        *,
        order: random.Random,
        restores: bool = False,
        early: bool = False,
    ) -> None:
        self.name, self.sets, self.restores = name, sets, restores
        self.early = early  # preparing runs the way itself, which must not happen on a stream that is held back
        self._prepare, self._order = prepare, order

    def draw(self, count: int, *, distinct: bool) -> list[int]:
        """Which sets the next calls use: neighbours from a random start, or one and the same."""
        start = self._order.randrange(len(self.sets))
        return [(start + i * distinct) % len(self.sets) for i in range(count)]

    def any_of(self, count: int) -> int:
        return self._order.randrange(count)

    def calls(self, numbers: list[int]) -> list[Call]:
        """The calls, ready to be made. Those on one and the same set see it as tensors of versions of their own."""
        if self.restores:
            for number in numbers:
                self.sets.restore(number)
        alike = len(set(numbers)) < len(numbers)
        return [self._prepare(self.sets.another(n) if alike else self.sets[n]) for n in numbers]
