"""From a rule's estimate to the gain that is reported, where the headroom is known.

The headroom is the factor between the measured time and the roofline's limit. No finding can gain more.
"""

from __future__ import annotations

# A model's estimate of a time is good to about this factor; a measured time is exact.
_MODEL_ERROR = 2.0


def correct_by_headroom(estimate: float, headroom: float | None) -> float:
    """The estimate of a time model, corrected by a measurement.

    Where the headroom is within the model's error of the estimate, or below it, the flaw is taken to account for all of
    it. Where the headroom is far larger, something else costs the rest, and the estimate stays.
    """
    if headroom is None:
        return estimate
    return headroom if estimate >= headroom / _MODEL_ERROR else estimate


def gain_above(threshold: float, estimate: float, headroom: float | None) -> float | None:
    """The corrected gain; None where it or the estimate is below the threshold.

    A measurement may confirm a flaw that the model sees. It does not reveal one that the model does not see.
    """
    gain = correct_by_headroom(estimate, headroom)
    return gain if min(estimate, gain) >= threshold else None


def cap_at_headroom(estimate: float, headroom: float | None) -> float:
    """An estimate without a time model is capped at the headroom, and never raised to it."""
    return estimate if headroom is None else min(estimate, headroom)
