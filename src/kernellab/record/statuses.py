"""The statuses that a trial, a check and a result can have, and what they mean for the exit code. No torch.

`docs/verdicts.md` has this table for users; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Status:
    """`exit_code`: of a command with such a result, if no other result is worse."""

    name: str
    meaning: str
    exit_code: int


OK = Status("ok", "right: every judged result is within the limit", 0)
IMPRECISE = Status("imprecise", "beyond the limit, within what rounding every step explains; 1 with `--strict`", 0)
_SKIPPED = Status("skipped", "outside the implementation's domain or not for this device", 0)
_UNKNOWN = Status("unknown", "cannot tell: nothing could be judged, through no fault of the implementation", 3)
_FAILURES = (
    Status("crashed", "the process died, or the GPU became unusable", 1),
    Status("timeout", "no answer within `--timeout`", 1),
    Status("oom", "memory ran out", 1),
    Status("error", "an exception", 1),
    Status("wrong", "a wrong result", 1),
)
# The worst first: a result's status is the worst status of its checks.
TABLE = (*_FAILURES, _UNKNOWN, IMPRECISE, OK, _SKIPPED)

FAILED = frozenset(status.name for status in _FAILURES)
RIGHT = frozenset({OK.name, IMPRECISE.name})  # fit to be timed and compared
UNKNOWN = _UNKNOWN.name


def worst(statuses: Iterable[str]) -> str:
    """The worst of the statuses; `skipped` if there is none."""
    present = set(statuses)
    return next((status.name for status in TABLE if status.name in present), _SKIPPED.name)


def exit_code(statuses: Iterable[str], *, strict: bool = False) -> int:
    """1 if something is wrong, else 3 if something could not be judged, else 0.

    Skipped results do not count. If all are skipped, nothing was judged: 3. `strict`: imprecise is wrong.
    """
    present = set(statuses)
    if present & FAILED or (strict and IMPRECISE.name in present):
        return 1
    return 3 if UNKNOWN in present or not present & RIGHT else 0
