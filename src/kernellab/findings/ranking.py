"""The order of findings: by expected gain, the largest first. `klab explain` and `klab profile` both rank with this."""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.findings.finding import Finding, Precedence


def rank(findings: Sequence[Finding]) -> list[Finding]:
    """Largest expected gain first; findings without a gain last, in the given order.

    A finding whose gain assumes that others are fixed comes after those: before that, its gain cannot be had.
    """
    alone = [finding for finding in findings if finding.precedence is Precedence.ALONE]
    if alone:
        return alone
    first = [f for f in findings if f.precedence in (Precedence.FIRST, Precedence.NO_GAIN_LEFT)]
    others = [f for f in findings if f.precedence is Precedence.BY_GAIN]
    if any(f.precedence is Precedence.NO_GAIN_LEFT for f in first):
        others = [f for f in others if f.gain is None]
    return [*first, *_by_gain(others)]


def _by_gain(findings: Sequence[Finding]) -> list[Finding]:
    waiting = sorted(findings, key=lambda finding: -finding.expected_gain)
    ranked: list[Finding] = []
    while waiting:
        ready = next(f for f in waiting if not any(earlier in waiting for earlier in f.after))
        waiting.remove(ready)
        ranked.append(ready)
    return ranked
