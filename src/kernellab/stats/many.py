"""Many tests at once: the error level of each, so that the chance of a single false alarm among all stays small."""

from __future__ import annotations

from collections.abc import Sequence


def step_down_levels(probabilities: Sequence[float], error: float) -> list[float]:
    """The level at which each test is decided by Holm's procedure: it is significant if its probability is not above.

    Among all tests without a real difference, one or more are significant with probability `error` at most, whatever
    the tests have in common. The smallest of n probabilities is tested at error / n, the next at error / (n − 1), until
    one is not significant: that one and all larger ones share its level.
    """
    order = sorted(range(len(probabilities)), key=probabilities.__getitem__)
    levels = [error] * len(probabilities)
    remaining, stopped = len(order), False
    for at in order:
        levels[at] = error / remaining
        stopped = stopped or probabilities[at] > levels[at]
        if not stopped:
            remaining -= 1
    return levels
