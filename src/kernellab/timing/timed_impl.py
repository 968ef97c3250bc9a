"""One implementation's calls on the input sets: prepared outside the timed window, made inside it."""

from __future__ import annotations

import random
from collections.abc import Callable

from kernellab.declaration.inputs import Inputs, clone
from kernellab.timing.input_sets import InputSets

Call = Callable[[], object]


class TimedImpl:
    """`prepare` turns an input set into the call to time; for the backward pass it runs the forward pass.

    `restores_inputs`: the implementation changes its inputs by declaration, so they are rewritten before every call.
    `copies_inputs`: it overwrites its inputs, so every call gets copies of its own.
    `prepare_runs_impl`: preparing runs the implementation itself, which must not happen on a stream that is held back.
    """

    def __init__(
        self,
        name: str,
        sets: InputSets,
        prepare: Callable[[Inputs], Call],
        *,
        order: random.Random,
        restores_inputs: bool = False,
        copies_inputs: bool = False,
        prepare_runs_impl: bool = False,
    ) -> None:
        self.name, self.sets = name, sets
        self.restores_inputs, self.copies_inputs = restores_inputs, copies_inputs
        self.prepare_runs_impl = prepare_runs_impl
        self._prepare, self._order = prepare, order

    def draw(self, count: int, *, distinct: bool) -> list[int]:
        """Numbers of the sets for the next calls: consecutive ones from a random start, or one set for all."""
        start = self._order.randrange(len(self.sets))
        return [(start + i * distinct) % len(self.sets) for i in range(count)]

    def pick(self, count: int) -> int:
        """A random index below `count`."""
        return self._order.randrange(count)

    def prepare_calls(self, numbers: list[int]) -> list[Call]:
        """The calls on these sets. If a set repeats, each call gets it as tensors with their own versions."""
        if self.restores_inputs:
            for number in numbers:
                self.sets.restore(number)
        if self.copies_inputs:
            return [self._prepare(clone(self.sets[number])) for number in numbers]
        repeated = len(set(numbers)) < len(numbers)
        return [self._prepare(self.sets.as_new_tensors(n) if repeated else self.sets[n]) for n in numbers]
