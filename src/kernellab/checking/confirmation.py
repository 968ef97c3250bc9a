"""Confirming wrong values: an error slightly above the limit must occur with other values too.

The limit follows from the peer's error on the same inputs, and in some of hundreds of trials that error is small by
chance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kernellab.checking.outcome import Outcome
from kernellab.trials.trial import Trial

_CLEARLY_WRONG = 8.0  # times the limit: beyond that it is not chance
_REPETITIONS = 3
_NOTE = "slightly above the limit with the first values, within it with others: chance"

Examine = Callable[[Trial], "Outcome | None"]  # None: the trial does not apply


def examine_and_confirm(examine: Examine, trial: Trial) -> Outcome | None:
    """The outcome of a trial. Values slightly above the limit are wrong only if other draws of them are too."""
    first = examine(trial)
    if first is None or first.status not in ("wrong", "imprecise"):
        return first
    if first.status == "wrong" and first.excess >= _CLEARLY_WRONG:
        return first
    best = first
    for number in range(1, _REPETITIONS + 1):
        other = examine(replace(trial, draw=trial.draw + number))
        if other is not None and other.status == "ok":
            return other.with_notes([_NOTE])
        if other is not None and other.status == "imprecise":
            best = other
    return best
