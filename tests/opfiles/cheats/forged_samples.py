"""Implementations that forge their samples after the call, when kernellab frees their results.

Nothing is replaced and every result is right: only a clock outside the process sees it. They are alone in their file,
because a machine that is busy hides it.
"""

import sys

import kernellab as kl


@kl.op(cases=kl.cases(shape=[(1024, 1024)], dtype=["float32"]))
def double(x):
    """x·2."""
    return x * 2


def _compute(x):
    for _ in range(5):
        y = x * 2
    return y


@double.impl("honest")
def _(x):
    return _compute(x)


_forged = []


class Forger:
    """Goes with a result. When the result is freed, the samples of its burst are measured and not yet sent."""

    def __del__(self):
        frame = sys._getframe(1)
        while frame is not None:
            burst = frame.f_locals.get("burst")
            if type(burst).__name__ == "Burst" and not any(burst is known for known in _forged):
                _forged.append(burst)
                burst.samples_us[:] = [us / 3 for us in burst.samples_us]
            frame = frame.f_back


@double.impl("forges-its-samples")
def _(x):
    y = _compute(x)
    y.forger = Forger()
    return y
