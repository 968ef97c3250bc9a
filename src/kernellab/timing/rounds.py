"""Interleaved rounds: every way once per round, in random order, so that drift hits all of them alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import monotonic
from typing import Any

from kernellab.timing.timers import Timer

Call = Callable[[], Any]
Running = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class Plan:
    """When to stop: at least `least` rounds, then until the time is spent, at most `most`."""

    seconds: float
    least: int = 10
    most: int = 400
    warmups: int = 3


def rounds(
    calls: Mapping[str, Call], timer: Timer, plan: Plan, *, seed: int, running: Running
) -> Iterator[dict[str, float]]:
    """Yield each round's sample per way in microseconds; `running(name)` is entered around each sample."""
    for name, call in calls.items():
        for _ in range(plan.warmups):
            with running(name):
                timer.sample(call)
    order = random.Random(seed)
    names = list(calls)
    deadline = monotonic() + plan.seconds * len(names)
    for count in range(max(plan.most, plan.least)):
        if count >= plan.least and monotonic() > deadline:
            return
        order.shuffle(names)
        samples = {}
        for name in names:
            with running(name):
                samples[name] = timer.sample(calls[name])
        yield {name: samples[name] for name in calls}
